#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fla/ops/step/call_of.h"

/// The original kernels of steps on one CUDA device: those of the parts, one after another. Only launches, on
/// the current device: no allocation, no synchronisation, no read of device memory by the host; grids come
/// from sizes alone. Contents of indices that are out of range never lead outside the tensors.
namespace fla::cuda {

/// Blocks of the largest grid, which has room for fewer than 2^31.
std::int64_t step_blocks(const StepCall& call);

/// The workspace holds indices that lie on the host, and what goes from part to part.
std::size_t step_workspace(const StepCall& call);
step::Between between_in(const StepCall& call, void* workspace);

struct StepLaunch {
  cudaError_t error;
  int launched;  ///< kernels that write more than the workspace
};
StepLaunch launch_step(const StepCall& call, void* workspace, cudaStream_t stream);

}  // namespace fla::cuda
