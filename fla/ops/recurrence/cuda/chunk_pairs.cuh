#pragma once

#include "fla/ops/recurrence/cuda/pairs.cuh"

/// The operators of one chunk and head whose tokens have one decay each. Products of q and k need no decay:
///
///     M_ij = (q_i^T k_j) 2^(G_i - G_j)     N likewise
///
/// and 2^(G_i - G_j) is a sum for each pair (i, j), over the tokens between them: a difference of two sums
/// would lose the small ones beside a strong gate.
///
///     shared     q k [C][KP + 8], decays [C][C + 4]
///     decays     thread (quarter, j) adds up the gates behind token j - 1 and keeps a quarter of the sums;
///                j = 0 makes the 2^G_i
///     products   a warp 16 rows of q or of k against all k
///     T2         one warp, a lane a column: forward substitution in f32
namespace fla::cuda {

template <int KP>
struct PairsMemory {
  static constexpr int C = chunk_size(KP);
  alignas(16) float q[C * kRow<KP>], k[C * kRow<KP>];
  alignas(16) float decays[C * kPairRow<C>], Lt[C * kPairRow<C>];  // Lt is the transpose of L = diag(beta) N
  float front[C], g[C], beta[C];
};

/// The log2-decay of a token; 0 past the last token.
__device__ inline float token_log2_decay(const RecurrenceCall& call, int head, const TokenRange& range,
                                         int t) {
  if (t >= range.count) return 0;
  if (!call.g.data) return head_log2_decay(call, head);
  const std::int64_t at = range.batch * call.g.batch + (range.first + t) * call.g.token + head * call.g.head;
  float g[1] = {load(call.g.data, call.g.dtype, at)};
  const float bias[1] = {gate_bias(call, head, 0)};
  log2_decays(call, gate_rate(call, head), bias, g);
  return g[0];
}

template <int KP>
__device__ void make_decays(PairsMemory<KP>& memory) {
  constexpr int C = chunk_size(KP), kShare = C * C / kThreads;  // tokens that a thread keeps
  const int behind = static_cast<int>(threadIdx.x) % C, share = threadIdx.x / C;
  float sum = 0;
#pragma unroll
  for (int t = 0; t < C; ++t) {
    sum = t < behind ? 0 : sum + memory.g[t];
    if (t / kShare != share) continue;
    const float decay = exp2_decay(sum);
    if (behind == 0)
      memory.front[t] = decay;
    else
      memory.decays[t * kPairRow<C> + behind - 1] = decay;
  }
  if (threadIdx.x == 0) memory.decays[(C - 1) * kPairRow<C> + C - 1] = 1;
}

/// Writes k and q to the workspace, for chunk_state.
template <int KP>
__device__ void write_keys(const PairsMemory<KP>& memory, ChunkKeys<KP>& keys) {
  for (int i = 4 * static_cast<int>(threadIdx.x); i < chunk_size(KP) * KP; i += 4 * kThreads) {
    const int t = i / KP, channel = i % KP;
    const auto write = [&](const float* tile, KeyRows<KP>& rows) {
      *reinterpret_cast<float4*>(&rows[t][channel]) =
          *reinterpret_cast<const float4*>(tile + t * kRow<KP> + channel);
    };
    write(memory.k, keys.K);
    write(memory.q, keys.Q);
  }
}

/// One block per chunk and key head: its value heads share the products of q and k.
template <int KP, Rule rule>
__global__ void __launch_bounds__(kThreads)
    chunk_pairs(const __grid_constant__ RecurrenceCall call,
                const ChunkWorkspace<KP, Decay::token, rule> workspace) {
  constexpr int C = chunk_size(KP);
  extern __shared__ __align__(16) char shared[];
  auto& memory = *reinterpret_cast<PairsMemory<KP>*>(shared);

  const ChunkOfBlock<C> chunk(call, call.HV / call.group);
  if (chunk.count == 0) return;
  const int first_head = chunk.head * call.group;
  load_keys<C, KP>(call, first_head, chunk.range(), memory.q, memory.k);
  __syncthreads();
  write_keys(memory, workspace.keys[blockIdx.x]);

  constexpr int kRowTiles = C / 16;
  const int tile = threadIdx.x / 32, g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  const bool of_q = tile < kRowTiles, working = tile < (rule == Rule::delta ? 2 : 1) * kRowTiles;
  const int first = tile % kRowTiles * 16;  // row of the tile
  Fragment d[C / 8] = {};
  if (working) {
    const auto two = [&](const float* tokens, int t, int channel) {
      return *reinterpret_cast<const float2*>(tokens + t * kRow<KP> + channel);
    };
    const float* const rows = of_q ? memory.q : memory.k;
#pragma unroll 4
    for (int channel = 2 * p; channel < KP; channel += 8) {
      const float2 upper = two(rows, first + g, channel), lower = two(rows, first + g + 8, channel);
      float2 columns[C / 8];
#pragma unroll
      for (int n = 0; n < C / 8; ++n) columns[n] = two(memory.k, 8 * n + g, channel);
      multiply(d, OperandA({upper.x, upper.y, lower.x, lower.y}), columns);
    }
  }

  for (int head = first_head; head < first_head + call.group; ++head) {
    auto& operators = workspace.operators[chunk.place * call.HV + head];
    const int own = threadIdx.x;
    if (own < C) {
      memory.g[own] = token_log2_decay(call, head, chunk.range(), own);
      memory.beta[own] = HeldBeta(call, head, chunk.range(), own).value(call);
    }
    __syncthreads();
    make_decays(memory);
    __syncthreads();
    if (working) {
#pragma unroll
      for (int i = 0; i < C / 2; ++i) {
        const int row = first + g + i % 4 / 2 * 8, j = i / 4 * 8 + 2 * p + i % 2;
        // What has decayed to nothing is nothing, however large the product is.
        const float decay = row < j ? 0 : memory.decays[row * kPairRow<C> + j];
        const float x = decay == 0 ? 0 : d[i / 4][i % 4] * decay;
        if (of_q)
          operators.M.at[row][j] = x;
        else
          memory.Lt[j * kPairRow<C> + row] = weighted(memory.beta[row], row == j ? 0 : x);
      }
    }
    if (own < C) {
      operators.front_and_back.at[0][own] = memory.front[own];
      operators.front_and_back.at[1][own] = memory.decays[(C - 1) * kPairRow<C> + own];
    }
    __syncthreads();
    if constexpr (rule == Rule::delta) {
      if (own < C) solve(memory.Lt, memory.beta, own, operators.T2.at);
    }
  }
}

}  // namespace fla::cuda
