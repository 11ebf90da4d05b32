#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "fla/ops/recurrence/call.h"

namespace fla::cuda {

/// All kernels of a backward call, on indices that are on the device, for K padded to KP; each KP is
/// a file of its own, for they take long to compile.
template <int KP, Rule rule>
std::size_t backward_memory(const BackwardCall& back, std::int64_t window);
template <int KP, Rule rule>
cudaError_t launch_backward_kernels(const BackwardCall& back, void* memory, cudaStream_t stream,
                                    std::int64_t window);

}  // namespace fla::cuda
