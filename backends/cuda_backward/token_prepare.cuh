#pragma once

#include "backends/cuda_backward/scales.cuh"
#include "backends/cuda_backward/solve.cuh"
#include "backends/cuda_backward/token_rows.cuh"

/// The operators of one chunk and value head whose gates have a number a token (workspace.cuh). The decays of
/// pairs are factors of whole pairs: a warpgroup makes M, the other one N; then a warp has 16 channels.
namespace fla::cuda_backward {

struct alignas(1024) TokenPrepareMemory {
  SplitRows q, k;
  union {
    struct {
      PairTile M, T;
    };
    KeyTile Qh;
  };
  union {
    PairTile N;
    KeyTile Kh;
  };
  Diagonal diagonal;
  alignas(8) float beta[kTokens];
  alignas(8) float G[kTokens];      ///< sums of log2-decays
  alignas(8) float front[kTokens];  ///< decays from the chunk's first token
  alignas(8) float back[kTokens];   ///< to its last one
};
static_assert(3 * (sizeof(TokenPrepareMemory) + 1024) <= 228 * 1024, "three blocks in an SM");

/// Gates and betas of two tokens of a lane of the first warp: the constructor issues the loads.
struct TokenPair {
  TokenGate gates[2];
  HeldBeta betas[2];

  __device__ TokenPair(const RecurrenceCall& call, int head, const TokenRange& range, int t)
      : gates{{call, head, range, t}, {call, head, range, t + 32}},
        betas{{call, head, range, t}, {call, head, range, t + 32}} {}
  /// Numbers of tokens for this kernel, and for those that follow. The first warp calls this.
  __device__ void put(const RecurrenceCall& call, TokenPrepareMemory& memory, TokenNumbers& numbers,
                      float (&factors)[2][kHead]) const {
    const int lane = threadIdx.x;
    float G[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      G[i] = gates[i].decay(call);
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const float before = __shfl_sync(~0u, G[i], lane - step);
        if (lane >= step) G[i] += before;
      }
    }
    const float middle = __shfl_sync(~0u, G[0], 31), first = __shfl_sync(~0u, G[0], 0);
    G[1] += middle;
    const float last = __shfl_sync(~0u, G[1], 31);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int t = lane + 32 * i;
      memory.G[t] = numbers.G[t] = G[i];
      memory.beta[t] = numbers.beta[t] = betas[i].value(call);
      memory.back[t] = numbers.back[t] = exp2_decay(last - G[i]);
      memory.front[t] = factors[1][t] = exp2_decay(G[i] - first);
      numbers.front[t] = exp2_decay(G[i]), numbers.beta_slopes[t] = beta_slope(call, betas[i]);
      factors[1][kTokens + t] = exp2_decay(first);
    }
#pragma unroll
    for (int c = lane; c < kHead; c += 32) factors[0][c] = exp2_decay(last);
  }
};

/// M by the first warpgroup, N by the other one.
__device__ inline void find_pairs(TokenPrepareMemory& memory) {
  const bool of_M = warpgroup() == 0;
  const int row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + static_cast<int>(threadIdx.x) % 32 / 4,
            p = threadIdx.x % 4;
  Slice<kTokenTiles> d;
  const SplitRows& rows = of_M ? memory.q : memory.k;
  begin_all<false>(
      d, kHead, [&](int c) { return operand<false>(rows.halves[c / 64]).from(c % 64); },
      [&](int c) { return operand<false>(memory.k.halves[c / 64]).from(c % 64); });
  end_all(d);
  const float G[2] = {memory.G[row], memory.G[row + 8]};
  const int last_row = __shfl_sync(~0u, row, 31) + 8;  // of the warp
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    if (8 * n > last_row) {  // all above the diagonal
#pragma unroll
      for (int r = 0; r < 2; ++r) (of_M ? memory.M : memory.N).pair(row + 8 * r, 8 * n + 2 * p) = 0;
      continue;
    }
    const float2 earlier = pair_of_tokens(memory.G, n);
    const bool on_diagonal = n / 2 == last_row / 16;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = row + 8 * r, j = 8 * n + 2 * p;
      const float x = exp2_decay(G[r] - earlier.x) * d[n][2 * r],
                  y = exp2_decay(G[r] - earlier.y) * d[n][2 * r + 1];
      if (on_diagonal)  // where decays may also be infinite, and are left out
        put_pairs(memory, of_M, i, j, x, y);
      else
        (of_M ? memory.M : memory.N).pair(i, j) = pack_f16(x, y);
    }
  }
}

template <Inputs inputs>
__global__ void __launch_bounds__(kBlockThreads, 3)
    token_prepare(const __grid_constant__ BackwardCall back,
                  const __grid_constant__ BackwardMemory workspace) {
  extern __shared__ __align__(1024) char shared[];
  auto& memory = *reinterpret_cast<TokenPrepareMemory*>(shared);
  const RecurrenceCall& call = back.call;
  const auto states = static_cast<unsigned>(2 * call.N * call.HV);
  if (blockIdx.x < states) return find_largest_of_state(back, workspace);
  const ChunkOfBlock<kTokens> chunk(call, call.HV, 0, blockIdx.x - states);
  if (chunk.count == 0) return;
  ChunkMemory& to = workspace.chunks[blockIdx.x - states];
  const int head = chunk.head, key_head = head / call.group;
  const TokenRange range = chunk.range();
  const TokenPair tokens(call, head, range, threadIdx.x < 32 ? static_cast<int>(threadIdx.x) : kTokens);
  copy_input<kBlockThreads>(call.k, key_head, 0, call.K, range, memory.k);
  copy_input<kBlockThreads>(call.q, key_head, 0, call.K, range, memory.q);
  __pipeline_commit();
  find_largest_of_rows<inputs>(back, workspace, chunk);
  clear_rows<kBlockThreads>(memory.T, 0);
  if (threadIdx.x < 32) tokens.put(call, memory, workspace.tokens[blockIdx.x - states], to.factors);
  KeyMemory& keys = workspace.keys[chunk.place * (call.HV / call.group) + key_head];
  __pipeline_wait_prior(0);
  const Normalized k(memory.k, dtype_of<inputs>(call.k)), q(memory.q, dtype_of<inputs>(call.q));
  const bool keeps_keys = head % call.group == 0;  // one of those that share it
  if (keeps_keys) k.store_norms(keys.norms[1]), q.store_norms(keys.norms[0]);
  show_to_products();
  __syncthreads();
  find_pairs(memory);
  if (keeps_keys && warpgroup() == 0) {  // while the other warpgroup is still at N
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      store_tile<kBlockThreads / 2>(memory.k.halves[half], keys.k.halves[half]);
      store_tile<kBlockThreads / 2>(memory.q.halves[half], keys.q.halves[half]);
    }
  }
  show_to_products();
  __syncthreads();
  solve(memory, to, [](auto, int) {});
  show_to_products();
  __syncthreads();
  store_tile<kBlockThreads>(memory.T, to.T);

  const int row = static_cast<int>(threadIdx.x) / 32 * 16;
  const auto scaled = [](std::uint32_t word, float2 factors) {
    return multiply_f16(word, pack_f16(factors.x, factors.y));
  };
  {
    Packed<kTokenTiles> Kr;
    with_columns(memory.k, row, [&](int n, int r, std::uint32_t word) {
      Kr.at[n][r] = scaled(word, pair_of_tokens(memory.back, n));
    });
    Slice<kTokenTiles> x;
    make_products(x, Kr, operand<true>(memory.T));
    scale_tokens(x, memory.beta);
    put(packed(x), memory.Kh, row);
  }
  Slice<kTokenTiles> y;
  {
    Packed<kTokenTiles> written;
    with_columns(memory.k, row, [&](int n, int r, std::uint32_t word) {
      const float2 front = pair_of_tokens(memory.front, n), beta = pair_of_tokens(memory.beta, n);
      written.at[n][r] = scaled(word, {front.x * beta.x, front.y * beta.y});
    });
    Slice<kTokenTiles> w;
    make_products(w, written, operand<false>(memory.T));
    make_products(y, packed(w), operand<false>(memory.M));  // packed: T2 K~
  }
  with_columns(memory.q, row, [&](int n, int r, std::uint32_t word) {
    const float2 q = unpack_f16(scaled(word, pair_of_tokens(memory.front, n)));
    y[n][2 * r] = q.x - y[n][2 * r], y[n][2 * r + 1] = q.y - y[n][2 * r + 1];
  });
  __syncthreads();  // M and T have been read
  put(packed(y), memory.Qh, row);
  __syncthreads();
  store_tile<kBlockThreads>(memory.Qh, to.Qh);
  store_tile<kBlockThreads>(memory.Kh, to.Kh);
}

}  // namespace fla::cuda_backward
