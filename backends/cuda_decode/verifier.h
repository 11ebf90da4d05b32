#pragma once

#include "fla/core/cuda_devices.h"
#include "fla/ops/recurrence/arguments.h"
#include "fla/ops/recurrence/cuda/verdicts.h"
#include "fla/ops/step/arguments.h"

namespace fla::cuda_decode {

inline constexpr cuda::ComputeCapability kDevices{80, true, "8.0 or above"};

/// Bytes of workspace that a call takes: what it has of indices on the host.
std::size_t workspace_bytes(const recurrence::Arguments& args);
std::size_t workspace_bytes(const recurrence::ReplayArguments& args);
std::size_t workspace_bytes(const step::Arguments& args);

/// Whether cuda_decode takes this call of an op's fused_recurrent function on that device, the one of its
/// tensors; null where there is no such GPU. Packed sequences are refused whatever their lengths are:
/// cu_seqlens on the device is not read before kernels run, so it is unknown how many tokens a sequence has.
/// A server that decodes N requests passes [N, 1, …], or [N, T, …] with drafts.
Verdict verify(const recurrence::Arguments& args, const CudaDevice* device);

/// The same of a step of replay_<op>, and of one of a whole layer.
Verdict verify(const recurrence::ReplayArguments& args, const CudaDevice* device);
Verdict verify(const step::Arguments& args, const CudaDevice* device);

template <RecurrenceArgs Args>
std::size_t workspace_bytes(const Args& args) {
  return workspace_bytes(recurrence::arguments_of(args));
}
template <RecurrenceArgs Args>
Verdict verify(const Args& args, const CudaDevice* device) {
  return verify(recurrence::arguments_of(args), device);
}
template <StepArgs Args>
Verdict verify(const Args& args, const CudaDevice* device) {
  return verify(step::arguments_of(args), device);
}
template <ReplayArgs Args>
Verdict verify(const Args& args, const CudaDevice* device) {
  return verify(recurrence::replay_arguments_of(args), device);
}

}  // namespace fla::cuda_decode
