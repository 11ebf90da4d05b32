#pragma once

#include "fla/core/cuda_devices.h"
#include "fla/ops/kda/cuda/verdicts.h"
#include "fla/ops/kda/kda.h"

namespace fla::cuda_decode {

inline constexpr cuda::ComputeCapability kDevices{80, true, "8.0 or above"};

/// Bytes of workspace that a call takes: what it has of indices on the host.
std::size_t workspace_bytes(const KdaArgs& args);

/// Whether cuda_decode takes this call of fused_recurrent_kda on that device, the one of its tensors; null
/// where there is no such GPU. Packed sequences are refused whatever their lengths are: cu_seqlens on the
/// device is not read before kernels run, so it is unknown whether every sequence has one token. A server
/// that decodes N requests passes [N, 1, …].
Verdict verify(const KdaArgs& args, const CudaDevice* device);

}  // namespace fla::cuda_decode
