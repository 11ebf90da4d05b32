#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fla/ops/merge/call.h"

/// merge on one CUDA device. Only launches, on the current device: no allocation, no synchronisation.
namespace fla::cuda {

/// Blocks of the grid, which has room for fewer than 2^31.
std::int64_t merge_blocks(const MergeCall& call);

/// A launch that fails has written nothing.
cudaError_t launch_merge(const MergeCall& call, cudaStream_t stream);

}  // namespace fla::cuda
