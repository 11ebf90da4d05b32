#pragma once

#include "fla/core/cuda_devices.h"
#include "fla/ops/recurrence/arguments.h"
#include "fla/ops/recurrence/cuda/verdicts.h"

namespace fla::flash_kda {

/// The kernels' instructions are there and nowhere else.
inline constexpr cuda::ComputeCapability kDevices{90, false, "9.0"};

/// Whether the op's backend of this folder takes the call on that device, the one of its tensors; null where
/// there is no such GPU. Tokens are read by the tensor memory accelerator, which wants rows at multiples of
/// 16 bytes; slices of fused projections are, where every part's width is a multiple of 8 elements.
Verdict verify(const recurrence::Arguments& args, const CudaDevice* device);

}  // namespace fla::flash_kda
