#pragma once

#include "fla/ops/recurrence/cuda/pairs.cuh"

/// The operators of one chunk and head that has a decay a channel, for gates of any strength.
///
/// Q~, K~ and Kr only have exponents <= 0. Sums from the front make Q~ and K~, sums from the back Kr: neither
/// is a difference of two others, which would lose the small sums beside a strong gate.
///
/// The 2^(G_i - G_j) of M and N can not be split at one reference for all pairs: a hard reset makes one
/// factor 0 and the other infinite. So every pair (i, j) is split at a boundary between i and j, and both
/// factors are at most 1:
///
///          j  0..7   8..15  16..23 24..31
///     i  0..7 | d  |                          h   boundary 16: rows 16..31 against columns 0..15
///       8..15 | e  | d  |                     e   boundaries 8 and 24
///      16..23 | h  | h  | d  |                d   within 8 tokens: pair by pair, running products of decays
///      24..31 | h  | h  | e  | d  |           (a chunk of 16 has e and d only)
///
///     shared     q k [C][KP + 8]; a third tile holds factors: first 16's, then 8's, then the decays
///     Q~ K~ Kr   a thread a channel, straight to the workspace; its log-decays stay in registers to the end
///     h, e       tensor cores, a warp a 16 x 8 tile; rows of q above rows of k make M and N in one product
///     d          a warp 8 tokens, a lane two channels of each 64; 64 sums, added up over the warp
///     T2         one warp, a lane a column: forward substitution in f32
namespace fla::cuda {

template <int KP, Rule rule>
struct PrepareMemory {
  static constexpr int C = chunk_size(KP), kPairRow = cuda::kPairRow<C>;
  alignas(16) float q[C * kRow<KP>], k[C * kRow<KP>], factor[C * kRow<KP>];
  Maybe<rule == Rule::delta, float[C * kPairRow]> Lt;  // the transpose of L = diag(beta) N
  float beta[C];
};

template <Rule rule, int KP, int C, class Operators>
__device__ void write_scaled(const PrepareMemory<KP, rule>& memory, const float (&g)[C], int channel,
                             Operators& operators) {
  float sum = 0;
#pragma unroll
  for (int t = C - 4; t >= 0; t -= 4) {
    float x[4];
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      x[i] = memory.k[(t + i) * kRow<KP> + channel] * exp2_decay(sum);
      sum += g[t + i];
    }
    operators.write_Kr(t, channel, {x[0], x[1], x[2], x[3]});
  }
  operators.gamma.at[channel] = exp2_decay(sum);
  sum = 0;
#pragma unroll
  for (int t = 0; t < C; ++t) {
    sum += g[t];
    const float decay = exp2_decay(sum);
    if constexpr (rule == Rule::delta) operators.K.at[t][channel] = memory.k[t * kRow<KP> + channel] * decay;
    operators.Q.at[t][channel] = memory.q[t * kRow<KP> + channel] * decay;
  }
}

/// Writes, for every token and channel, its decay to the boundary in the middle of its 2 * half tokens.
template <int half, int KP, int C>
__device__ void write_factors(const float (&g)[C], int channel, float* factor) {
#pragma unroll
  for (int base = 0; base < C; base += 2 * half) {
    float sum = 0;
#pragma unroll
    for (int t = base + half - 1; t >= base; --t) {  // before the boundary: what still comes until there
      factor[t * kRow<KP> + channel] = exp2_decay(sum);
      sum += g[t];
    }
    sum = 0;
#pragma unroll
    for (int t = base + half; t < base + 2 * half; ++t) {  // after it: what has come since
      sum += g[t];
      factor[t * kRow<KP> + channel] = exp2_decay(sum);
    }
  }
}

/// The blocks of M and L that lie across the boundaries of `half`.
template <int half, Rule rule, int KP>
__device__ void pairs_across(PrepareMemory<KP, rule>& memory, KeyPairs<KP>& M) {
  constexpr int C = chunk_size(KP), kAcross = half / 8, kTiles = C / (2 * half) * kAcross * kAcross;
  constexpr int kPairRow = PrepareMemory<KP, rule>::kPairRow;
  static_assert(kTiles <= kWarps);
  const int tile = threadIdx.x / 32, g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  if (tile >= kTiles) return;
  const int base = tile / (kAcross * kAcross) * 2 * half, m = tile / kAcross % kAcross, n = tile % kAcross;
  const int rows[2] = {16 * m + g, 16 * m + g + 8};  // of q, then of k
  if (rule == Rule::additive && rows[0] >= half) return;
  const auto token = [&](int row) { return base + half + row % half; };
  const auto scaled = [&](const float* tokens, int t, int channel) {
    const float2 x = *reinterpret_cast<const float2*>(tokens + t * kRow<KP> + channel);
    const float2 f = *reinterpret_cast<const float2*>(memory.factor + t * kRow<KP> + channel);
    return float2{x.x * f.x, x.y * f.y};
  };
  Fragment d[1] = {};
#pragma unroll 4
  for (int channel = 2 * p; channel < KP; channel += 8) {
    const float2 upper = scaled(rows[0] < half ? memory.q : memory.k, token(rows[0]), channel);
    const float2 lower = scaled(rows[1] < half ? memory.q : memory.k, token(rows[1]), channel);
    const float2 columns[1] = {scaled(memory.k, base + 8 * n + g, channel)};
    multiply(d, OperandA({upper.x, upper.y, lower.x, lower.y}), columns);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = rows[i / 2], t = token(row), j = base + 8 * n + 2 * p + i % 2;
    if (row < half)
      M[t][j] = d[0][i];
    else if constexpr (rule == Rule::delta)
      memory.Lt.at[j * kPairRow + t] = weighted(memory.beta[t], d[0][i]);
  }
}

/// The blocks of 8 tokens on the diagonal. memory.factor holds the decays.
template <Rule rule, int KP>
__device__ void pairs_within(PrepareMemory<KP, rule>& memory, KeyPairs<KP>& M) {
  constexpr int C = chunk_size(KP), kPairRow = PrepareMemory<KP, rule>::kPairRow;
  const int base = threadIdx.x / 32 * 8, lane = threadIdx.x % 32;
  if (base >= C) return;
  // sums 0..35: M, row by row of its triangle with the diagonal; 36..63: N, without it
  float sums[64] = {};
  for (int channel = 2 * lane; channel < KP; channel += 64) {
    float2 q[8], k[8], a[8];
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      const int at = (base + t) * kRow<KP> + channel;
      q[t] = *reinterpret_cast<const float2*>(memory.q + at);
      k[t] = *reinterpret_cast<const float2*>(memory.k + at);
      a[t] = *reinterpret_cast<const float2*>(memory.factor + at);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float2 decayed = k[j];
#pragma unroll
      for (int i = j; i < 8; ++i) {
        if (i > j) {
          decayed = {decayed.x * a[i].x, decayed.y * a[i].y};
          if constexpr (rule == Rule::delta)
            sums[36 + i * (i - 1) / 2 + j] += k[i].x * decayed.x + k[i].y * decayed.y;
        }
        sums[i * (i + 1) / 2 + j] += q[i].x * decayed.x + q[i].y * decayed.y;
      }
    }
  }
  reduce_scatter<32, 1>(sums);
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const int sum = lane * 2 + s;
    const bool in_M = sum < 36;
    int i = in_M ? 0 : 1, j = in_M ? sum : sum - 36;
    for (; j >= (in_M ? i + 1 : i); ++i) j -= in_M ? i + 1 : i;
    i += base, j += base;
    if (in_M)
      M[i][j] = sums[s];
    else if constexpr (rule == Rule::delta)
      memory.Lt.at[j * kPairRow + i] = weighted(memory.beta[i], sums[s]);
  }
}

/// From Lt = N^T, as it is where every beta is 1, to N and the transpose of L.
template <int KP, Rule rule, int C>
__device__ void keep_pairs(PrepareMemory<KP, rule>& memory, const float (&beta)[C], KeyPairs<KP>& N) {
  for (int i = threadIdx.x; i < C * C; i += kThreads) {
    float& n = memory.Lt.at[i % C * PrepareMemory<KP, rule>::kPairRow + i / C];
    N[i / C][i % C] = n;
    n = weighted(beta[i / C], n);
  }
}

/// A backward call keeps N, and (I + L)^-1 without beta.
template <int KP, Rule rule, class Workspace>
__global__ void __launch_bounds__(kThreads)
    chunk_prepare(const __grid_constant__ RecurrenceCall call, const Workspace workspace) {
  constexpr int C = chunk_size(KP), kColumns = KP > kThreads ? KP / kThreads : 1;
  constexpr int kPairRow = PrepareMemory<KP, rule>::kPairRow;
  extern __shared__ __align__(16) char shared[];
  auto& memory = *reinterpret_cast<PrepareMemory<KP, rule>*>(shared);

  const ChunkOfBlock<C> chunk(call, call.HV, workspace.first);
  if (chunk.count == 0) return;
  auto& operators = workspace.operators[blockIdx.x];

  if constexpr (rule == Rule::delta) {
    for (int i = threadIdx.x; i < C * kPairRow; i += kThreads) memory.Lt.at[i] = 0;
  }
  KeyPairs<KP>& M = operators.M.at;
  for (int i = threadIdx.x; i < C * C; i += kThreads) {
    if (i / C < i % C) M[i / C][i % C] = 0;
  }
  TokenLoader<C, KP, Workspace::kBackward ? Decays::any_log2 : Decays::log2> tokens(call, chunk.head);
  tokens.load(chunk.range(), memory.q, memory.k, memory.factor, memory.beta);
  if constexpr (Workspace::kBackward) {
    if (const int own = threadIdx.x; own < C) operators.beta[own] = memory.beta[own], memory.beta[own] = 1;
  }
  __syncthreads();
  float g[kColumns][C];
  const auto with_columns = [&](auto&& body) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (const int channel = c * kThreads + static_cast<int>(threadIdx.x); channel < KP) body(g[c], channel);
    }
    __syncthreads();
  };
  with_columns([&](float(&g)[C], int channel) {
#pragma unroll
    for (int t = 0; t < C; ++t) g[t] = memory.factor[t * kRow<KP> + channel];
    if constexpr (C == 32) write_factors<16, KP>(g, channel, memory.factor);
    write_scaled(memory, g, channel, operators);
  });
  if constexpr (C == 32) {
    pairs_across<16, rule>(memory, M);
    __syncthreads();
  }
  with_columns([&](float(&g)[C], int channel) { write_factors<8, KP>(g, channel, memory.factor); });
  pairs_across<8, rule>(memory, M);
  __syncthreads();
  with_columns([&](float(&g)[C], int channel) {
#pragma unroll
    for (int t = 0; t < C; ++t) memory.factor[t * kRow<KP> + channel] = exp2_decay(g[t]);
  });
  pairs_within<rule>(memory, M);
  if constexpr (rule == Rule::delta) {
    __syncthreads();
    if constexpr (Workspace::kBackward) {
      keep_pairs<KP, rule>(memory, operators.beta, operators.N.at);
      __syncthreads();
    }
    if (const int j = threadIdx.x; j < C) solve(memory.Lt.at, memory.beta, j, operators.T2.at);
  }
}

}  // namespace fla::cuda
