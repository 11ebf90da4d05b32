#pragma once

#include "fla/core/cuda_devices.h"
#include "fla/ops/kda/kda.h"

namespace fla::flash_kda {

inline constexpr int kArchitecture = 90;  ///< the kernels' instructions are there and nowhere else

/// Whether flash_kda takes this call of chunk_kda on that device, the one of its tensors; null where there is
/// no such GPU. Tokens are read by the tensor memory accelerator, which wants rows at multiples of 16 bytes;
/// slices of fused projections are, where every part's width is a multiple of 8 elements.
Verdict verify(const KdaArgs& args, const CudaDevice* device);

/// Whether a workspace that the caller gives does for a call that takes so many bytes.
Verdict verify(const Workspace& workspace, std::size_t bytes);

}  // namespace fla::flash_kda
