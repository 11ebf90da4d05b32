#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "fla/ops/recurrence/call.h"

namespace fla::cuda_backward {

/// Puts the gradients of a call that the verifier accepts on a stream; the contract of
/// fla/ops/recurrence/cuda/kernels.h. A launch that fails may have written gradients. The results do not
/// depend on the device's number of multiprocessors, the time does.
std::size_t workspace_bytes(const BackwardCall& back);
cudaError_t launch(const BackwardCall& back, void* workspace, int multiprocessors, cudaStream_t stream);

}  // namespace fla::cuda_backward
