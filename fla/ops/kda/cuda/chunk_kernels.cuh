#pragma once

#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/kda/cuda/chunk_launch.h"
#include "fla/ops/kda/cuda/chunk_prepare.cuh"
#include "fla/ops/kda/cuda/chunk_state.cuh"

namespace fla::cuda {

template <int KP>
cudaError_t launch_chunk_kernels(const RecurrenceCall& call, void* workspace, cudaStream_t stream) {
  constexpr int kSmallest = 99 * 1024;  // shared memory of a block on sm_86 and sm_89
  constexpr int kPrepare = sizeof(PrepareMemory<KP>), kState = sizeof(StateMemory<KP>);
  static_assert(kPrepare <= kSmallest && kState <= kSmallest);
  auto* const operators = static_cast<ChunkOperators<KP>*>(workspace);
  const cudaError_t error = launch_blocks<chunk_prepare<KP>, kPrepare>(chunk_places(call) * call.HV, kThreads,
                                                                       stream, call, operators);
  if (error != cudaSuccess) return error;
  const std::int64_t blocks = call.N * call.HV * ((call.V + kStateValues - 1) / kStateValues);
  return launch_blocks<chunk_state<KP>, kState>(blocks, kStateThreads, stream, call, operators);
}

}  // namespace fla::cuda
