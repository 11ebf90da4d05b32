#pragma once

#include "fla/core/cuda_devices.h"
#include "fla/ops/kda/kda.h"
#include "fla/ops/recurrence/cuda/verdicts.h"

namespace fla::tilelang {

/// The kernels' instructions are there and nowhere else.
inline constexpr cuda::ComputeCapability kDevices{90, false, "9.0"};

/// Whether tilelang takes this call of chunk_kda on that device, the one of its tensors; null where there is
/// no such GPU. Eight channels of q, k and out are read and written at once, two of v.
Verdict verify(const KdaArgs& args, const CudaDevice* device);

}  // namespace fla::tilelang
