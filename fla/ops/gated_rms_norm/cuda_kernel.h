#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fla/ops/gated_rms_norm/call.h"

/// gated_rms_norm on one CUDA device. Only launches, on the current device: no allocation, no
/// synchronisation.
namespace fla::cuda {

/// Blocks of the grid, which has room for fewer than 2^31.
std::int64_t gated_rms_norm_blocks(const GatedRmsNormCall& call);

/// A launch that fails has written nothing.
cudaError_t launch_gated_rms_norm(const GatedRmsNormCall& call, cudaStream_t stream);

}  // namespace fla::cuda
