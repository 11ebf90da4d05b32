#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "fla/core/export.h"
#include "fla/ops/recurrence/call.h"
#include "fla/ops/recurrence/replay_call.h"

/// The original kernels of the family on one CUDA device: the functions that put a call on a stream.
///
/// Every function here only launches, on the current device: no allocation, no synchronisation, no read of
/// device memory by the host. A call can be captured in a graph, also with cu_seqlens and state indices on
/// the device: grids come from T and N, never from their contents. Contents out of range never lead outside
/// the tensors: cu_seqlens is clamped to [0, T], a state index outside the pool counts as negative.
namespace fla::cuda {

using Gate = common::GateInput;
using common::Indices;
using common::Parameters;
using common::Rows;
using common::Slots;
using common::slots_of;
using common::States;

/// Any K and V from 1 to 256, any strides and dtypes, N * HV * ceil(V / 32) below 2^31. Sequences whose read
/// index is negative get zeros for o and leave the states alone; a negative write index alone only keeps the
/// state from being written. The workspace is 256-byte aligned; its size follows from sizes and from where
/// indices lie. A launch that fails has written nothing but the workspace.
std::size_t recurrent_workspace(const RecurrenceCall& call, const CallExtras& extras);
cudaError_t launch_recurrent(const RecurrenceCall& call, const CallExtras& extras, void* workspace,
                             cudaStream_t stream);

/// The same contract, in chunks of tokens on the tensor cores, with products as good as f32's. Rule::low_rank
/// goes token by token here as well, and so do checkpoints inside of chunks.
FLA_API std::size_t chunk_workspace(const RecurrenceCall& call, const CallExtras& extras = {});
cudaError_t launch_chunk(const RecurrenceCall& call, const CallExtras& extras, void* workspace,
                         cudaStream_t stream);

/// launch_chunk in two steps, for calls whose tokens differ in v alone: the first step makes what the others
/// share, which have initial states, v, V and outputs of their own. A call without o carries only the state.
/// Indices lie on the device; checkpoints lie between chunks. The workspace is that of launch_chunk.
FLA_API cudaError_t launch_chunk_operators(const RecurrenceCall& call, void* workspace, cudaStream_t stream);
FLA_API cudaError_t launch_chunk_states(const RecurrenceCall& call, const CallExtras& extras, void* workspace,
                                        cudaStream_t stream);

/// The same contract, for a step over rings or a fold of them. A sequence whose slot or counts are out of
/// range gets zeros for o, and neither its state nor its ring is written.
std::size_t replay_workspace(const ReplayCall& call);
cudaError_t launch_replay(const ReplayCall& call, void* workspace, cudaStream_t stream);
/// Brings indices that lie on the host to the workspace: afterwards all of the call's are on the device.
cudaError_t place_host_indices(ReplayCall& call, void* workspace, cudaStream_t stream);

/// The gradients, in chunks like launch_chunk; Rule::low_rank token by token. N * HV * (V / 32 + 1) below
/// 2^31. Memory grows with the sequences by a state every few hundred to thousands of tokens: `window` tokens
/// of value heads are worked on at a time, 0: as many as is good. A launch that fails may have written
/// gradients.
std::size_t backward_workspace(const BackwardCall& back, std::int64_t window = 0);
cudaError_t launch_backward(const BackwardCall& back, void* workspace, cudaStream_t stream,
                            std::int64_t window = 0);

}  // namespace fla::cuda
