#pragma once

#include "fla/ops/common/cuda/host_indices.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

namespace fla::cuda {

/// Inline, for backends that are modules.
inline cudaError_t place_host_indices(ReplayCall& replay, void* workspace, cudaStream_t stream) {
  auto* target = static_cast<std::int64_t*>(workspace);
  for (Indices* indices : {&replay.call.read_slots, &replay.begin, &replay.end}) {
    if (const cudaError_t error = place(*indices, replay.call.N, target, stream); error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}

}  // namespace fla::cuda
