#pragma once

#include "backends/cuda_backward/workspace.cuh"

namespace fla::cuda_backward {

/// The largest absolute values, which choose the scales: of v and initial_state, and of scale * do and dht.
/// Maxima do not depend on the order of the atomics.
__device__ inline void see(float& largest, float x) { largest = fmaxf(largest, fabsf(x)); }
__device__ inline void add_largest(const RecurrenceCall& call, const BackwardMemory& workspace,
                                   std::int64_t n, int head, float (&most)[2]) {
#pragma unroll
  for (int which = 0; which < 2; ++which) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) see(most[which], __shfl_xor_sync(~0u, most[which], mask));
    if (threadIdx.x % 32 == 0)
      atomicMax(workspace.largest + (which * call.N + n) * call.HV + head, __float_as_uint(most[which]));
  }
}

/// All threads of a block call this.
template <Inputs inputs>
__device__ void find_largest_of_rows(const BackwardCall& back, const BackwardMemory& workspace,
                                     const ChunkOfBlock<kTokens>& chunk) {
  const RecurrenceCall& call = back.call;
  constexpr int kPieces = kHead / 8, kEach = kTokens * kPieces / kBlockThreads, kStep = kTokens / kEach;
  const int first = static_cast<int>(threadIdx.x) / kPieces, v = static_cast<int>(threadIdx.x) % kPieces * 8;
  const int count = v < call.V ? chunk.count : 0;
  uint4 words[2][kEach];  // all loads are under way at once
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    const Rows& rows = which ? back.do_ : call.v;
    const std::uint16_t* from = static_cast<const std::uint16_t*>(rows.data) + chunk.batch * rows.batch +
                                (chunk.first + first) * rows.token + chunk.head * rows.head + v;
#pragma unroll
    for (int i = 0; i < kEach; ++i, from += kStep * rows.token)
      words[which][i] = first + i * kStep < count ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
  }
  float most[2] = {};
#pragma unroll
  for (int which = 0; which < 2; ++which) {
#pragma unroll
    for (const uint4& each : words[which]) {
      for (const std::uint32_t word : {each.x, each.y, each.z, each.w}) {
        const float2 x = unpack(word, dtype_of<inputs>(which ? back.do_ : call.v));
        see(most[which], x.x), see(most[which], x.y);
      }
    }
  }
  most[1] *= fabsf(call.scale);
  add_largest(call, workspace, chunk.n, chunk.head, most);
}

/// Blocks after those of the chunks have one sequence and head each.
__device__ inline void find_largest_of_states(const BackwardCall& back, const BackwardMemory& workspace) {
  const RecurrenceCall& call = back.call;
  const std::int64_t item = blockIdx.x - workspace.places * call.HV, n = item / call.HV;
  const int head = static_cast<int>(item % call.HV);
  float most[2] = {};
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    const States& states = which ? back.dht : call.initial_state;
    if (!states.data) continue;
#pragma unroll 4
    for (int i = threadIdx.x; i < call.K * call.V; i += kBlockThreads)
      see(most[which], load(states.data, states.dtype,
                            states.offset(n, head) + i / call.V * states.key + i % call.V * states.value));
  }
  add_largest(call, workspace, n, head, most);
}

/// dq and dk of a chunk and a key head: sums over its value heads, which left theirs in the workspace, in f16
/// and scaled.
__global__ void __launch_bounds__(kBlockThreads)
    add_groups(const __grid_constant__ BackwardCall back, const __grid_constant__ BackwardMemory workspace) {
  constexpr int kPieces = kHead / 8;
  const RecurrenceCall& call = back.call;
  const ChunkOfBlock<kTokens> chunk(call, call.HV / call.group);
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    const Rows& rows = which ? back.dk : back.dq;
    if (!rows.data) continue;
#pragma unroll
    for (int at = threadIdx.x; at < kTokens * kPieces; at += kBlockThreads) {
      const int t = at / kPieces, c = at % kPieces * 8;
      if (t >= chunk.count || c >= call.K) continue;
      float sums[8] = {};
      for (int i = 0; i < call.group; ++i) {
        const int head = chunk.head * call.group + i;
        ChunkMemory& own = workspace.chunks[chunk.place * call.HV + head];
        const Scales scales(call, workspace, chunk.n, head);
        const uint4 words =
            *reinterpret_cast<const uint4*>(reinterpret_cast<RowTile&>(which ? own.Qh : own.Kt).piece(t, c));
        const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float2 x = unpack_f16(word[j]);
          sums[2 * j] += x.x * scales.gradients.up * scales.values.up;
          sums[2 * j + 1] += x.y * scales.gradients.up * scales.values.up;
        }
      }
      store_8(rows.data, rows.dtype,
              chunk.batch * rows.batch + (chunk.first + t) * rows.token + chunk.head * rows.head + c, sums);
    }
  }
}

}  // namespace fla::cuda_backward
