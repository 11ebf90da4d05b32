#pragma once

#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/step/call.h"

namespace fla::cuda {

inline constexpr std::int64_t kMostBlocks = 65535;  ///< along y and z of a grid

/// The tokens of every sequence, of a call that cuda_decode's verifier accepts; the contract of
/// fla/ops/recurrence/cuda/kernels.h. The workspace holds indices that lie on the host (index_workspace.h).
/// `early`: on sm_90 and up, see early_launch.cuh.
cudaError_t launch_decode(const RecurrenceCall& call, const CallExtras& extras, void* workspace, bool early,
                          cudaStream_t stream);

/// Its share for several tokens, and those whose states are kept: steps.cu. Indices are on the device.
inline namespace decode_parts {
struct DecodeCall;
}
cudaError_t launch_steps(const DecodeCall& one, const RecurrenceCall& call, const CallExtras& extras,
                         bool early, cudaStream_t stream);

/// A step of a whole layer that the verifier accepts, likewise: layer.cu. A launch that fails has written
/// nothing but the workspace.
cudaError_t launch_layer_step(const StepCall& call, void* workspace, bool early, cudaStream_t stream);

/// A step of replay_<op> that the verifier accepts, likewise.
cudaError_t launch_replay_step(const ReplayCall& call, void* workspace, bool early, cudaStream_t stream);

}  // namespace fla::cuda
