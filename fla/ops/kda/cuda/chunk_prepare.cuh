#pragma once

#include "fla/ops/common/cuda/mma.cuh"
#include "fla/ops/kda/cuda/chunk.cuh"
#include "fla/ops/kda/cuda/tokens.cuh"

/// The operators of one chunk and head, for gates of any strength.
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

template <int KP>
struct PrepareMemory {
  static constexpr int C = chunk_size(KP), kPairRow = C + 4;
  alignas(16) float q[C * kRow<KP>], k[C * kRow<KP>], factor[C * kRow<KP>];
  alignas(16) float M[C * kPairRow], Lt[C * kPairRow];  // Lt is the transpose of L = diag(beta) N
  float beta[C];
};

/// beta N, of a token that writes nothing 0: its key may be so large that N is not finite.
__device__ inline float weighted(float beta, float n) { return beta == 0 ? 0 : beta * n; }

template <int KP, int C>
__device__ void write_scaled(const PrepareMemory<KP>& memory, const float (&g)[C], int channel,
                             ChunkOperators<KP>& operators) {
  float sum = 0;
#pragma unroll
  for (int t = C - 4; t >= 0; t -= 4) {
    float x[4];
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      x[i] = memory.k[(t + i) * kRow<KP> + channel] * exp2_decay(sum);
      sum += g[t + i];
    }
    *reinterpret_cast<float4*>(operators.Kr[t / 4][channel]) = {x[0], x[1], x[2], x[3]};
  }
  operators.gamma[channel] = exp2_decay(sum);
  sum = 0;
#pragma unroll
  for (int t = 0; t < C; ++t) {
    sum += g[t];
    const float decay = exp2_decay(sum);
    operators.K[t][channel] = memory.k[t * kRow<KP> + channel] * decay;
    operators.Q[t][channel] = memory.q[t * kRow<KP> + channel] * decay;
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
template <int half, int KP>
__device__ void pairs_across(PrepareMemory<KP>& memory) {
  constexpr int C = chunk_size(KP), kAcross = half / 8, kTiles = C / (2 * half) * kAcross * kAcross;
  constexpr int kPairRow = PrepareMemory<KP>::kPairRow;
  static_assert(kTiles <= kWarps);
  const int tile = threadIdx.x / 32, g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  if (tile >= kTiles) return;
  const int base = tile / (kAcross * kAcross) * 2 * half, m = tile / kAcross % kAcross, n = tile % kAcross;
  const int rows[2] = {16 * m + g, 16 * m + g + 8};  // of q, then of k
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
      memory.M[t * kPairRow + j] = d[0][i];
    else
      memory.Lt[j * kPairRow + t] = weighted(memory.beta[t], d[0][i]);
  }
}

/// The blocks of 8 tokens on the diagonal. memory.factor holds the decays.
template <int KP>
__device__ void pairs_within(PrepareMemory<KP>& memory) {
  constexpr int C = chunk_size(KP), kPairRow = PrepareMemory<KP>::kPairRow;
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
      memory.M[i * kPairRow + j] = sums[s];
    else
      memory.Lt[j * kPairRow + i] = weighted(memory.beta[i], sums[s]);
  }
}

/// A lane a column j of (I + L)^-1, which becomes column j of T2.
template <int KP>
__device__ void solve(const PrepareMemory<KP>& memory, int j, ChunkOperators<KP>& operators) {
  constexpr int C = chunk_size(KP), kPairRow = PrepareMemory<KP>::kPairRow;
  float x[C];
#pragma unroll
  for (int i = 0; i < C; ++i) x[i] = i == j ? 1 : 0;
#pragma unroll
  for (int m = 0; m < C; ++m) {
    operators.T2[m][j] = m < j ? 0 : x[m] * memory.beta[j];  // 0 also where beta is not finite
#pragma unroll
    for (int i = m + 1; i < C; ++i) x[i] -= memory.Lt[m * kPairRow + i] * x[m];
  }
}

template <int KP>
__global__ void __launch_bounds__(kThreads)
    chunk_prepare(const __grid_constant__ RecurrenceCall call, ChunkOperators<KP>* all_operators) {
  constexpr int C = chunk_size(KP), kColumns = KP > kThreads ? KP / kThreads : 1;
  constexpr int kPairRow = PrepareMemory<KP>::kPairRow;
  extern __shared__ __align__(16) char shared[];
  auto& memory = *reinterpret_cast<PrepareMemory<KP>*>(shared);

  const int head = static_cast<int>(blockIdx.x % call.HV);
  const std::int64_t place = blockIdx.x / call.HV, n = sequence_at<C>(call, place);
  const Sequence sequence = sequence_of(call, n);
  const std::int64_t chunk = place - chunk_place<C>(call, sequence, n, 0), t0 = sequence.begin + chunk * C;
  if (chunk < 0 || t0 >= sequence.end) return;
  const int count = static_cast<int>(min(sequence.end - t0, std::int64_t{C}));
  ChunkOperators<KP>& operators = all_operators[place * call.HV + head];

  for (int i = threadIdx.x; i < C * kPairRow; i += kThreads) memory.M[i] = memory.Lt[i] = 0;
  TokenLoader<C, KP, Decays::log2> tokens(call, head);
  tokens.load(sequence.batch, t0, count, memory.q, memory.k, memory.factor, memory.beta);
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
    pairs_across<16, KP>(memory);
    __syncthreads();
  }
  with_columns([&](float(&g)[C], int channel) { write_factors<8, KP>(g, channel, memory.factor); });
  pairs_across<8, KP>(memory);
  __syncthreads();
  with_columns([&](float(&g)[C], int channel) {
#pragma unroll
    for (int t = 0; t < C; ++t) memory.factor[t * kRow<KP> + channel] = exp2_decay(g[t]);
  });
  pairs_within(memory);
  __syncthreads();
  if (threadIdx.x >= 32) {
    for (int i = threadIdx.x - 32; i < C * C; i += kThreads - 32) {
      operators.M[i / C][i % C] = memory.M[i / C * kPairRow + i % C];
    }
  } else if (threadIdx.x < C) {
    solve(memory, threadIdx.x, operators);
  }
}

}  // namespace fla::cuda
