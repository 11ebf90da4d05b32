#pragma once

#include "backends/cuda_backward/workspace.cuh"

namespace fla::cuda_backward {

/// The largest absolute values of a chunk's v and scale * do: the constructor issues the loads. All threads
/// of a block have one.
template <Inputs inputs>
class LargestOfRows {
 public:
  __device__ LargestOfRows(const BackwardCall& back, const ChunkOfBlock<kTokens>& chunk) {
    const int first = static_cast<int>(threadIdx.x) / kPieces,
              v = static_cast<int>(threadIdx.x) % kPieces * 8;
    const int count = v < back.call.V ? chunk.count : 0;
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const Rows& rows = which ? back.do_ : back.call.v;
      const std::uint16_t* from = static_cast<const std::uint16_t*>(rows.data) + chunk.batch * rows.batch +
                                  (chunk.first + first) * rows.token + chunk.head * rows.head + v;
#pragma unroll
      for (int i = 0; i < kEach; ++i, from += kStep * rows.token)
        words_[which][i] =
            first + i * kStep < count ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
    }
  }

  __device__ void add_to(Largest& largest, const BackwardCall& back) const {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const DType dtype = dtype_of<inputs>(which ? back.do_ : back.call.v);
      std::uint32_t pair = 0;
#pragma unroll
      for (const uint4& each : words_[which]) {
        for (const std::uint32_t word : {each.x, each.y, each.z, each.w}) {
          const std::uint32_t absolute = word & 0x7fff7fffu;
          pair = dtype == DType::f16 ? larger_f16(pair, absolute) : larger_bf16(pair, absolute);
        }
      }
      const float2 two = unpack(pair, dtype);
      float most = 0;
      see(most, two.x), see(most, two.y);
      if (which) most *= fabsf(back.call.scale);
      add_largest(most, which ? &largest.gradients : &largest.values);
    }
  }

 private:
  static constexpr int kPieces = kHead / 8, kEach = kTokens * kPieces / kBlockThreads,
                       kStep = kTokens / kEach;
  uint4 words_[2][kEach];
};

/// Blocks before those of the chunks have one state each.
__device__ inline void find_largest_of_state(const BackwardCall& back, const BackwardMemory& workspace) {
  const RecurrenceCall& call = back.call;
  const auto heads = static_cast<unsigned>(call.N * call.HV), own = blockIdx.x % heads;
  const bool upstream = blockIdx.x >= heads;
  Largest& largest = workspace.largest[own];
  add_largest(largest_of_state<kBlockThreads>(call, upstream ? back.dht : call.initial_state, own / call.HV,
                                              static_cast<int>(own % call.HV)),
              upstream ? &largest.gradients : &largest.values);
}

}  // namespace fla::cuda_backward
