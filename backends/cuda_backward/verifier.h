#pragma once

#include "fla/core/cuda_devices.h"
#include "fla/ops/recurrence/arguments.h"
#include "fla/ops/recurrence/cuda/verdicts.h"

namespace fla::cuda_backward {

/// Where the kernels were measured; they take more shared memory than others have.
inline constexpr cuda::ComputeCapability kDevices{90, false, "9.0"};

/// Whether cuda_backward takes this call of an op's backward function on that device, the one of its tensors;
/// null where there is no such GPU. Keys have to be normalized by the call: then f16 holds every operator.
/// Rows are read 16 bytes at a time.
Verdict verify(const recurrence::BackwardArguments& args, const CudaDevice* device);

template <BackwardArgs Args>
Verdict verify(const Args& args, const CudaDevice* device) {
  return verify(recurrence::backward_arguments_of(args), device);
}

}  // namespace fla::cuda_backward
