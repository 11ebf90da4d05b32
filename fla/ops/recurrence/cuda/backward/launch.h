#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "fla/ops/recurrence/call.h"

namespace fla::cuda {

/// All kernels of a backward call for K padded to KP, with indices on the device. Each KP has a file of its
/// own, because the kernels take long to compile.
template <int KP, Rule rule>
std::size_t backward_memory(const BackwardCall& back, std::int64_t window);
template <int KP, Rule rule>
cudaError_t launch_backward_kernels(const BackwardCall& back, void* memory, cudaStream_t stream,
                                    std::int64_t window);

}  // namespace fla::cuda
