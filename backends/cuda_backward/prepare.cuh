#pragma once

#include "backends/cuda_backward/keys.cuh"
#include "backends/cuda_backward/scales.cuh"
#include "backends/cuda_backward/solve.cuh"

/// The operators of one chunk and value head whose gates have a number a channel (workspace.cuh).
///
///     by channels   a warp has 16: k and q with the decays of every level; T2 against Kr, K~ and Q~
///     pairs         a warp has a part of M and N, over all channels, a level or two at a time:
///
///          j  0      16     32     48
///     i  0   | d    |                            32   8 warps, 16 x 16 of M or of N
///       16   | 16   | d    |                     16   4 warps, 16 x 16 of M or of N
///       32   | 32     32   | d    |              d    8 x 8 of level 8, and two of levels 4, 2, 1
///       48   | 32     32   | 16   | d    |            and the diagonal: rows of q above rows of k
namespace fla::cuda_backward {

template <Inputs inputs>
using WholeKeys = Keys<kTokenTiles, inputs>;

struct PrepareMemory {
  union {
    struct {
      RawKeys keys;
      GateMemory gates;
    };
    struct {
      KeyTile q, k;
    } levels[2];
    struct {
      KeyTile q, k, earlier;        ///< as they end pairs within 32 tokens, and as k begins them
      KeyTile k_of_halves;          ///< with the decays of level 32
      Tile<kHead, 32> q_of_halves;  ///< of the later tokens
    } close;
    struct {
      KeyTile Kt, Qh, Kh;  ///< for the workspace
    } results;
  };
  union {
    struct {
      PairTile M, N, T;
    };
    PlainRows raw_gates;
  };
  Diagonal diagonal;
  alignas(8) float beta[kTokens];
  KeyNorms norms;
};

/// k and q with the decays of a level: decays(n, f) has those of tile n.
template <class Keys, class Decays>
__device__ void put_level(const Keys& keys, PrepareMemory& memory, int place, Decays&& decays) {
  auto& [q, k] = memory.levels[place];
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    Fragment f;
    decays(n, f);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::uint32_t own = pack_f16(f[2 * r], f[2 * r + 1]);
      const int row = keys.channel + g + 8 * r, column = 8 * n + 2 * p;
      q.pair(row, column) = multiply_f16(keys.q.at[n][r], own);
      k.pair(row, column) = multiply_f16(keys.k.at[n][r], own);
    }
  }
}

/// The warp's 16 x 16 of M or of N, from row i and column j.
__device__ inline void pairs_of_16(PrepareMemory& memory, int place, bool of_M, int i, int j) {
  const auto& [q, k] = memory.levels[place];
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  Fragment d[2] = {};
#pragma unroll 4
  for (int c = 0; c < kHead; c += 16)
    multiply(d[0], d[1], left_of_transposed(of_M ? q : k, i, c), right(k, c, j));
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = i + g + 8 * r, column = j + 8 * n + 2 * p;
      if (of_M)
        put_M(memory, row, column, d[n][2 * r], d[n][2 * r + 1]);
      else
        put_N(memory, row, column, d[n][2 * r], d[n][2 * r + 1]);
    }
  }
}

/// The warp's 8 x 8 of M and of N, from row i and column j: M's row g is in the first two numbers, N's in the
/// others.
__device__ inline void pairs_of_8(const PrepareMemory& memory, int place, int i, int j, Fragment& d) {
  const auto& [q, k] = memory.levels[place];
#pragma unroll 4
  for (int c = 0; c < kHead; c += 16) {
    const uint4 a = left_of_both(q, k, i, c), b = right(k, c, j / 16 * 16);
    mma_f16(d, a.x, a.y, a.z, a.w, j % 16 ? b.z : b.x, j % 16 ? b.w : b.y);
  }
}
__device__ inline void put_8(PrepareMemory& memory, int i, int j, const Fragment& d) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  put_M(memory, i + g, j + 2 * p, d[0], d[1]);
  put_N(memory, i + g, j + 2 * p, d[2], d[3]);
#pragma unroll
  for (int e = 0; e < 2; ++e)
    memory.diagonal[i / 16].at[i % 16 + g][j % 16 + 2 * p + e] = weighted(memory.beta[i + g], d[2 + e]);
}

/// Adds what a level of fewer than 8 tokens has to the 8 x 8 on the diagonal.
__device__ inline void add_level(const PrepareMemory& memory, int half, int place, int i, Fragment& sum) {
  Fragment d = {};
  pairs_of_8(memory, place, i, i, d);
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int column = 2 * p + e % 2;
    const bool own =
        half == 0 ? g == column && e < 2 : (g ^ column) < 2 * half && (g & half) && !(column & half);
    sum[e] = own ? d[e] : sum[e];
  }
}

/// Gates that have a number a channel.
template <class Keys>
__device__ void find_pairs_by_levels(const Keys& keys, PrepareMemory& memory) {
  const int warp = threadIdx.x / 32;
  put_level(keys, memory, 0, [&](int n, Fragment& f) { keys.template decays_to_boundary<32>(n, f); });
  __syncthreads();
  pairs_of_16(memory, 0, warp < 4, 32 + warp / 2 % 2 * 16, warp % 2 * 16);
  __syncthreads();
  put_level(keys, memory, 0, [&](int n, Fragment& f) { keys.template decays_to_boundary<16>(n, f); });
  put_level(keys, memory, 1, [&](int n, Fragment& f) { keys.template decays_to_boundary<8>(n, f); });
  __syncthreads();
  if (warp < 4) {
    pairs_of_16(memory, 0, warp < 2, warp % 2 * 32 + 16, warp % 2 * 32);
  } else {
    Fragment d = {};
    pairs_of_8(memory, 1, (warp - 4) * 16 + 8, (warp - 4) * 16, d);
    put_8(memory, (warp - 4) * 16 + 8, (warp - 4) * 16, d);
  }
  __syncthreads();
  Fragment own = {};
#pragma unroll 1
  for (int half = 4; half >= 2; half /= 2)
    put_level(keys, memory, half == 4 ? 0 : 1,
              [&](int n, Fragment& f) { keys.decays_within_tile(half, n, f); });
  __syncthreads();
#pragma unroll 1
  for (int half = 4; half >= 2; half /= 2) add_level(memory, half, half == 4 ? 0 : 1, 8 * warp, own);
  __syncthreads();
  put_level(keys, memory, 0, [&](int n, Fragment& f) { keys.decays_of_neighbours(n, f); });
  put(keys.q, memory.levels[1].q, keys.channel);
  put(keys.k, memory.levels[1].k, keys.channel);
  __syncthreads();
#pragma unroll 1
  for (int half = 1; half >= 0; --half) add_level(memory, half, 1 - half, 8 * warp, own);
  put_8(memory, 8 * warp, 8 * warp, own);
}

/// Decays of a range that the format holds (keys.cuh). A warp has 16 rows of M or of N.
template <bool wide, class Keys>
__device__ void find_close_pairs(const Keys& keys, PrepareMemory& memory) {
  using F = Format<wide>;
  auto& close = memory.close;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  {
    const auto factors = keys.template close_factors<wide>();
    put(factors.q, close.q, keys.channel);
    put(factors.k, close.k, keys.channel);
    put(factors.earlier, close.earlier, keys.channel);
    const auto f = keys.template decays<32>(), of_q = keys.q * f;
    put(keys.k * f, close.k_of_halves, keys.channel);
#pragma unroll
    for (int n = 4; n < kTokenTiles; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
        close.q_of_halves.pair(keys.channel + g + 8 * r, 8 * n - 32 + 2 * p) = of_q.at[n][r];
    }
  }
  __syncthreads();
  const int first = warp / 2 * 16, block = first / 32 * 32;
  const bool of_M = warp % 2 == 0;
  const auto put_all = [&](const Slice<4>& d, int column) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (column + 8 * n >= first + 16) continue;
#pragma unroll
      for (int r = 0; r < 2; ++r)
        put_pairs(memory, of_M, first + g + 8 * r, column + 8 * n + 2 * p, d[n][2 * r], d[n][2 * r + 1]);
    }
  };
  {
    Slice<4> d = {};
#pragma unroll 2
    for (int c = 0; c < kHead; c += 16) {
      const uint4 a = left_of_transposed(of_M ? close.q : close.k, first, c);
      F::multiply(d[0], d[1], a, right(close.earlier, c, block));
      if (first > block) F::multiply(d[2], d[3], a, right(close.earlier, c, block | 16));
    }
    put_all(d, block);
  }
  if (block > 0) {
    Slice<4> d = {};
#pragma unroll 2
    for (int c = 0; c < kHead; c += 16) {
      const uint4 a = of_M ? left_of_transposed(close.q_of_halves, first - 32, c)
                           : left_of_transposed(close.k_of_halves, first, c);
#pragma unroll
      for (int n = 0; n < 4; n += 2) multiply(d[n], d[n + 1], a, right(close.k_of_halves, c, 8 * n));
    }
    put_all(d, 0);
  }
}

/// Makes the operators, and finds the largest values that choose the scales (scales.cuh).
template <Inputs inputs>
__global__ void __launch_bounds__(kBlockThreads, 2)
    prepare(const __grid_constant__ BackwardCall back, const __grid_constant__ BackwardMemory workspace) {
  extern __shared__ __align__(1024) char shared[];
  auto& memory = *reinterpret_cast<PrepareMemory*>(shared);
  const RecurrenceCall& call = back.call;
  const auto states = static_cast<unsigned>(2 * call.N * call.HV);
  if (blockIdx.x < states) return find_largest_of_state(back, workspace);
  const ChunkOfBlock<kTokens> chunk(call, call.HV, 0, blockIdx.x - states);
  if (chunk.count == 0) return;
  ChunkMemory& to = workspace.chunks[blockIdx.x - states];
  ChannelMemory& operators = workspace.channels[blockIdx.x - states];
  const HeldBeta beta(call, chunk.head, chunk.range(), threadIdx.x);
  const WholeKeys<inputs> keys(
      call, chunk.head, chunk.range(), memory.keys, memory.raw_gates, memory.gates, memory.norms, [&] {
        LargestOfRows<inputs>(back, chunk).add_to(workspace.largest[chunk.n * call.HV + chunk.head], back);
      });
  if (const int own = threadIdx.x; own < kTokens) memory.beta[own] = beta.value(call);
  __syncthreads();
  for (PairTile* const tile : {&memory.M, &memory.N, &memory.T}) clear_rows<kBlockThreads>(*tile, 0);
  if (keys.amount == Amount::little) {
    find_close_pairs<false>(keys, memory);
  } else if (keys.amount == Amount::some) {
    find_close_pairs<true>(keys, memory);
  } else {
    find_pairs_by_levels(keys, memory);
  }
  __syncthreads();
  const auto front = keys.template decays_from_front<true>(), Q = keys.q * front;
  put(keys.k * front, memory.results.Kt, keys.channel);
  solve(
      memory,
      [&](int thread) {
        store_tile<kOthers>(memory.M, to.M, thread);
        store_tile<kOthers>(memory.N, operators.N, thread);
      },
      [&](int thread) { store_tile<kOthers>(memory.results.Kt, operators.Kt, thread); });
  __syncthreads();
  {
    Slice<kTokenTiles> x = {};
    const auto Kr = keys.k * keys.decays_to_back();
    multiply<4, Triangle::to_step>(
        x, [&](int s) { return Kr.left(s); }, [&](int k, int n) { return right(memory.T, k, n); });
    scale_tokens(x, memory.beta);
    put(packed(x), memory.results.Kh, keys.channel);
  }
  Packed<kTokenTiles> written;
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const float2 beta = pair_of_tokens(memory.beta, n);
#pragma unroll
    for (int r = 0; r < 2; ++r)
      written.at[n][r] =
          multiply_f16(word_of(memory.results.Kt, keys.channel, 0, n, r), pack_f16(beta.x, beta.y));
  }
  Slice<kTokenTiles> w = {}, y = {};
  multiply<4, Triangle::from_step>(
      w, [&](int s) { return written.left(s); },
      [&](int k, int n) { return right_of_transposed(memory.T, k, n); });
  const auto W = packed(w);  // T2 K~
  multiply<4, Triangle::from_step>(
      y, [&](int s) { return W.left(s); }, [&](int k, int n) { return right_of_transposed(memory.M, k, n); });
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float2 q = unpack_f16(Q.at[n][r]);
      y[n][2 * r] = q.x - y[n][2 * r], y[n][2 * r + 1] = q.y - y[n][2 * r + 1];
    }
  }
  put(packed(y), memory.results.Qh, keys.channel);
  const int g = threadIdx.x % 32 / 4;
  const float2 first = keys.first_decays();
  if (threadIdx.x % 4 == 0) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      to.factors[1][keys.channel + g + 8 * r] = r ? first.y : first.x;
      to.factors[0][keys.channel + g + 8 * r] = exp2_decay(keys.last[r]);
    }
  }
  __syncthreads();
  store_tile<kBlockThreads>(memory.results.Qh, operators.Qh);
  store_tile<kBlockThreads>(memory.results.Kh, operators.Kh);
  store_tile<kBlockThreads>(memory.T, operators.T);
}

}  // namespace fla::cuda_backward
