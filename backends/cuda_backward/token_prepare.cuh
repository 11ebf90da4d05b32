#pragma once

#include "backends/cuda_backward/scales.cuh"
#include "backends/cuda_backward/solve.cuh"
#include "backends/cuda_backward/token_rows.cuh"

/// M and P of one chunk and value head whose gates have a number a token (workspace.cuh), and keys and
/// numbers of tokens for the kernels that follow. The decays of pairs are factors of whole pairs: both
/// warpgroups make N, one of them M while two warps of the other one solve, and then P.
namespace fla::cuda_backward {

struct alignas(1024) TokenPrepareMemory {
  SplitRows q, k;
  union {
    PairTile M, P;
  };
  PairTile N, T;
  Diagonal diagonal;
  TokenNumbers numbers;
  TokenGates gates;
  alignas(8) float beta[kTokens];
};
static_assert(3 * (sizeof(TokenPrepareMemory) + 1024) <= 228 * 1024, "three blocks in an SM");

/// What makes decays of a head's gates, and gates of tokens: bits first, so that all loads are under way.
struct HeldGates {
  std::uint32_t rate_bits = 0, bias_bits = 0, raw_bits[2] = {};
  bool there[2];

  /// Of tokens t and t ^ 32; of none unless it `reads`.
  __device__ HeldGates(const RecurrenceCall& call, int head, const TokenRange& range, int t, bool reads)
      : there{reads && t < range.count, reads && (t ^ 32) < range.count} {
    const Rows& rows = call.g;
    const std::int64_t at = range.batch * rows.batch + range.first * rows.token + head * rows.head;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (there[i])
        raw_bits[i] = load_bits(rows.data, is_16_bit(rows.dtype), at + (i ? t ^ 32 : t) * rows.token);
    const auto bits = [&](const Parameters& x) {
      return reads && x.data ? load_bits(x.data, is_16_bit(x.dtype), head * x.head) : 0;
    };
    if (call.gate != Gate::given) rate_bits = bits(call.A_log), bias_bits = bits(call.dt_bias);
  }
  __device__ float raw(const RecurrenceCall& call, int i) const {
    return to_float(raw_bits[i], call.g.dtype);
  }
  __device__ float rate(const RecurrenceCall& call) const {
    return call.gate != Gate::given && call.A_log.data ? expf(to_float(rate_bits, call.A_log.dtype)) : 1;
  }
  __device__ float bias(const RecurrenceCall& call) const { return to_float(bias_bits, call.dt_bias.dtype); }
  /// Log2-decays; 0 where there is no such token.
  __device__ float2 decays(const RecurrenceCall& call) const {
    const float biases[2] = {bias(call), bias(call)};
    float x[2] = {raw(call, 0), raw(call, 1)};
    log2_decays(call, rate(call), biases, x);
#pragma unroll
    for (int i = 0; i < 2; ++i) x[i] = !there[i] ? 0 : x[i] < kStrongest ? kStrongest : x[i];
    return {x[0], x[1]};
  }
};

/// Numbers of the thread's token, by the first two warps. Each also adds up the gates of the other one.
__device__ inline void put_token(const RecurrenceCall& call, const HeldGates& held, const HeldBeta& beta,
                                 TokenPrepareMemory& memory) {
  const int t = threadIdx.x, lane = t % 32;
  const float2 decays = held.decays(call);  // of this warp's token, of the other one's
  const float of_others = reduce(decays.y);
  float G = decays.x;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float before = __shfl_sync(~0u, G, lane - step);
    if (lane >= step) G += before;
  }
  const float last = __shfl_sync(~0u, G, 31) + of_others,
              first = __shfl_sync(~0u, t < 32 ? decays.x : decays.y, 0);
  if (t >= 32) G += of_others;
  TokenNumbers& numbers = memory.numbers;
  numbers.G[t] = G;
  const float own = beta.value(call), back = exp2_decay(last - G), behind_first = exp2_decay(G - first);
  numbers.front[t] = exp2_decay(G), numbers.back[t] = back;
  numbers.beta[t] = memory.beta[t] = own, numbers.beta_slopes[t] = beta_slope(call, beta);
  numbers.written[t] = back * own, numbers.read[t] = behind_first * own;
  numbers.behind_first[t] = static_cast<std::uint16_t>(pack_f16(behind_first, 0));
  memory.gates.raw[t] = held.raw(call, 0);
  if (t == 0) memory.gates.rate = held.rate(call), memory.gates.bias = held.bias(call);
}

/// To the workspace, by `threads`.
template <int threads, class Numbers>
__device__ void store_numbers(const Numbers& from, Numbers& to, int thread) {
  for (int i = thread; i < static_cast<int>(sizeof(Numbers) / sizeof(uint4)); i += threads)
    reinterpret_cast<uint4*>(&to)[i] = reinterpret_cast<const uint4*>(&from)[i];
}

/// A warpgroup's rows of M or N, columns from `first` on: d is what they are before decays.
template <int tiles>
__device__ void put_pairs(TokenPrepareMemory& memory, bool of_M, int first, const Slice<tiles>& d) {
  const int first_row = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32 % 4 * 16, 0),
            row = first_row + static_cast<int>(threadIdx.x) % 32 / 4, p = threadIdx.x % 4;
  const float* const sums = memory.numbers.G;
  const float G[2] = {sums[row], sums[row + 8]};
  PairTile& to = of_M ? memory.M : memory.N;
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
    const int j = first + 8 * n + 2 * p, block = (first + 8 * n) / 16 * 16;
    if (block > first_row) {  // above the diagonal
#pragma unroll
      for (int r = 0; r < 2; ++r) to.pair(row + 8 * r, j) = 0;
      continue;
    }
    const float2 earlier = pair_of_tokens(memory.numbers.G, n, first);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float x = exp2_decay(G[r] - earlier.x) * d[n][2 * r],
                  y = exp2_decay(G[r] - earlier.y) * d[n][2 * r + 1];
      if (block == first_row)  // where decays may also be infinite, and are left out
        put_pairs(memory, of_M, row + 8 * r, j, x, y);
      else
        to.pair(row + 8 * r, j) = pack_f16(x, y);
    }
  }
}

/// Half of the columns of N by each warpgroup.
__device__ inline void find_N(TokenPrepareMemory& memory) {
  const int first = warpgroup() * (kTokens / 2);
  Slice<kTokenTiles / 2> d;
  keep(d);
  begin_products();
#pragma unroll
  for (int c = 0; c < kHead; c += 16) {
    const auto rows = operand<false>(memory.k.halves[c / 64]);
    if (c == 0)
      add_product<false>(d, rows, rows.from(0, first));
    else
      add_product(d, rows.from(c % 64), rows.from(c % 64, first));
  }
  end_products();
  wait_for_products<0>();
  keep(d);
  put_pairs(memory, false, first, d);
}
/// M, by one warpgroup.
__device__ inline void find_M(TokenPrepareMemory& memory) {
  Slice<kTokenTiles> d;
  begin_all<false>(
      d, kHead, [&](int c) { return operand<false>(memory.q.halves[c / 64]).from(c % 64); },
      [&](int c) { return operand<false>(memory.k.halves[c / 64]).from(c % 64); });
  end_all(d);
  put_pairs(memory, true, 0, d);
}

/// P = N T, by one warpgroup.
__device__ inline void find_P(TokenPrepareMemory& memory) {
  Slice<kTokenTiles> d;
  begin_all<false>(
      d, kTokens, [&](int t) { return operand<false>(memory.N).from(t); },
      [&](int t) { return operand<true>(memory.T).from(t); });
  end_all(d);
  put_matrices(packed(d), memory.P, static_cast<int>(threadIdx.x) / 32 % 4 * 16);
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
  TokenMemory& to = workspace.tokens[blockIdx.x - states];
  const int head = chunk.head, key_head = head / call.group;
  const TokenRange range = chunk.range();
  const bool has_token = threadIdx.x < kTokens;
  const HeldGates gates(call, head, range, static_cast<int>(threadIdx.x), has_token);
  const HeldBeta beta(call, head, range, static_cast<int>(threadIdx.x));
  copy_input<kBlockThreads>(call.k, key_head, 0, call.K, range, memory.k);
  copy_input<kBlockThreads>(call.q, key_head, 0, call.K, range, memory.q);
  __pipeline_commit();
  const LargestOfRows<inputs> largest(back, chunk);
  clear_rows<kBlockThreads>(memory.T, 0);
  if (has_token) put_token(call, gates, beta, memory);
  largest.add_to(workspace.largest[chunk.n * call.HV + head], back);
  KeyMemory& keys = workspace.keys[chunk.place * (call.HV / call.group) + key_head];
  __pipeline_wait_prior(0);
  const Normalized k(memory.k, dtype_of<inputs>(call.k)), q(memory.q, dtype_of<inputs>(call.q));
  const bool keeps_keys = head % call.group == 0;  // one of those that share it
  if (keeps_keys) k.store_norms(keys.norms[1]), q.store_norms(keys.norms[0]);
  show_to_products();
  __syncthreads();
  find_N(memory);
  __syncthreads();
  constexpr int kRest = kOthers - kBlockThreads / 2;  // of the warpgroup that solves
  solve(
      memory,
      [&](int thread) {
        if (warpgroup() == 1) return find_M(memory);
        store_numbers<kRest>(memory.numbers, to.numbers, thread);
        store_numbers<kRest>(memory.gates, to.gates, thread);
      },
      [&](int thread) {
        store_tile<kOthers>(memory.M, workspace.chunks[blockIdx.x - states].M, thread);
        if (!keeps_keys) return;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          store_tile<kOthers>(memory.k.halves[half], keys.k.halves[half], thread);
          store_tile<kOthers>(memory.q.halves[half], keys.q.halves[half], thread);
        }
      });
  show_to_products();
  __syncthreads();
  if (warpgroup() == 1) find_P(memory);
  __syncthreads();
  store_tile<kBlockThreads>(memory.P, to.P);
}

}  // namespace fla::cuda_backward
