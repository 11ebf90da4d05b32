#pragma once

#include "backends/cuda_backward/workspace.cuh"

namespace fla::cuda_backward {

/// The largest absolute values: of v and initial_state, and of scale * do and dht.
__device__ inline std::uint32_t* largest_of(const RecurrenceCall& call, const BackwardMemory& workspace,
                                            int which, std::int64_t n, int head) {
  return workspace.largest + (which * call.N + n) * call.HV + head;
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
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    const DType dtype = dtype_of<inputs>(which ? back.do_ : call.v);
    std::uint32_t pair = 0;
#pragma unroll
    for (const uint4& each : words[which]) {
      for (const std::uint32_t word : {each.x, each.y, each.z, each.w}) {
        const std::uint32_t absolute = word & 0x7fff7fffu;
        pair = dtype == DType::f16 ? larger_f16(pair, absolute) : larger_bf16(pair, absolute);
      }
    }
    const float2 two = unpack(pair, dtype);
    float most = 0;
    see(most, two.x), see(most, two.y);
    if (which) most *= fabsf(call.scale);
    add_largest(most, largest_of(call, workspace, which, chunk.n, chunk.head));
  }
}

/// Blocks before those of the chunks have one state each: of `largest`, in its order.
__device__ inline void find_largest_of_state(const BackwardCall& back, const BackwardMemory& workspace) {
  const RecurrenceCall& call = back.call;
  const std::int64_t n = blockIdx.x / call.HV % call.N;
  const int head = static_cast<int>(blockIdx.x % call.HV);
  const States& states = blockIdx.x < call.N * call.HV ? call.initial_state : back.dht;
  add_largest(largest_of_state<kBlockThreads>(call, states, n, head), workspace.largest + blockIdx.x);
}

}  // namespace fla::cuda_backward
