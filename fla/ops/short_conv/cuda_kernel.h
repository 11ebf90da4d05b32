#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fla/ops/short_conv/call.h"

/// short_conv on one CUDA device. Only launches, on the current device: no allocation, no synchronisation, no
/// read of device memory by the host; grids come from sizes alone. Contents of indices that are out of range
/// never lead outside the tensors.
namespace fla::cuda {

/// Blocks of the grid, which has room for fewer than 2^31.
std::int64_t short_conv_blocks(const ShortConvCall& call);

std::size_t short_conv_workspace(const ShortConvCall& call);

/// A launch that fails has written nothing but the workspace.
cudaError_t launch_short_conv(const ShortConvCall& call, void* workspace, cudaStream_t stream);

}  // namespace fla::cuda
