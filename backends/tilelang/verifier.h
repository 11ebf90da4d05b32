#pragma once

#include "fla/core/cuda_devices.h"
#include "fla/ops/kda/kda.h"

namespace fla::tilelang {

inline constexpr int kArchitecture = 90;  ///< the kernels' instructions are there and nowhere else

/// Whether tilelang takes this call of chunk_kda on that device, the one of its tensors; null where there is
/// no such GPU. Eight channels of q, k and out are read and written at once, two of v.
Verdict verify(const KdaArgs& args, const CudaDevice* device);

/// Whether a workspace that the caller gives does for a call that takes so many bytes.
Verdict verify(const Workspace& workspace, std::size_t bytes);

}  // namespace fla::tilelang
