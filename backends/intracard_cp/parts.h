#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "backends/intracard_cp/cut.h"
#include "fla/ops/recurrence/call.h"

/// A call of the original chunked kernels in parts that run side by side. What tokens do to a state is an
/// affine map, S_out = P S_in + R, whatever the state is. So
///
///     1  P and R of every part but a sequence's last   all parts at once
///     2  S <- P S + R, the state before each part      part after part
///     3  outputs, and the last part's final state      all parts at once, each from its S
///
/// 1 and 3 are the kernels that the call would run without this, on packed sequences. What they share of a
/// chunk is computed once.
namespace fla::intracard_cp {

/// The contract of launch_chunk in fla/ops/recurrence/cuda/kernels.h, for calls that the verifier accepts; of
/// `extras` only the pair counts. Without cu_seqlens the call's batches lie one after another.
std::size_t workspace_bytes(const RecurrenceCall& call, const CallExtras& extras, const Cut& cut);
cudaError_t launch(const RecurrenceCall& call, const CallExtras& extras, const Cut& cut, void* workspace,
                   cudaStream_t stream);

}  // namespace fla::intracard_cp
