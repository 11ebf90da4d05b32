#pragma once

#include "fla/ops/common/cuda/host_indices.cuh"
#include "fla/ops/recurrence/call.h"

/// The indices of a call and of what travels beside it.
namespace fla::cuda {

inline std::size_t index_workspace(const RecurrenceCall& call, const CallExtras& extras) {
  const Checkpoints& checkpoints = extras.checkpoints;
  return index_workspace(call) +
         kept_index_workspace(call.N, extras.accepted.count.on_host,
                              checkpoints.slots.first.on_host ? checkpoints.count : 0);
}

/// Afterwards all of them are on the device.
inline cudaError_t place_host_indices(RecurrenceCall& call, CallExtras& extras, void* workspace,
                                      cudaStream_t stream) {
  auto* target = reinterpret_cast<std::int64_t*>(static_cast<char*>(workspace) + index_workspace(call));
  if (const cudaError_t error = place_host_indices(call, workspace, stream); error != cudaSuccess)
    return error;
  AcceptedTokens& accepted = extras.accepted;
  if (const cudaError_t error = place(accepted.count, call.N, target, stream); error != cudaSuccess)
    return error;
  Checkpoints& checkpoints = extras.checkpoints;
  const cudaError_t error = place(checkpoints.slots, call.N, checkpoints.count, target, stream);
  accepted.slots = checkpoints.slots;
  return error;
}

}  // namespace fla::cuda
