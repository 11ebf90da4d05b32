#pragma once

#include "fla/core/cuda_devices.h"
#include "fla/ops/recurrence/arguments.h"
#include "fla/ops/recurrence/cuda/verdicts.h"

namespace fla::tilelang {

/// The kernels' instructions are there and nowhere else.
inline constexpr cuda::ComputeCapability kDevices{90, false, "9.0"};

/// Whether tilelang takes this call of an op's chunked function on that device, the one of its tensors; null
/// where there is no such GPU. Eight channels of q, k and out are read and written at once, two of v.
Verdict verify(const recurrence::Arguments& args, const CudaDevice* device);

template <RecurrenceArgs Args>
Verdict verify(const Args& args, const CudaDevice* device) {
  return verify(recurrence::arguments_of(args), device);
}

}  // namespace fla::tilelang
