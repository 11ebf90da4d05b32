#pragma once

#include "fla/ops/recurrence/call.h"
#include "fla/ops/recurrence/replay_call.h"

/// The original CPU kernels: every call that validates, of every op, in parallel over sequences and value
/// heads. A call without o leaves states alone. They throw what a stage throws (fla/ops/common/stages.h); a
/// state that is updated in place is then as it was.
namespace fla::recurrence {

/// Chunks of 16 tokens. One with a checkpoint inside ends there.
void chunk_on_cpu(const RecurrenceCall& call, const CallExtras& extras);

/// The recurrence itself, token by token.
void recurrent_on_cpu(const RecurrenceCall& call, const CallExtras& extras);

/// A step over rings, or a fold of them, token by token. No stage fails: their original kernels run.
void replay_on_cpu(const ReplayCall& call);

/// The gradients, chunks of 16 tokens; Rule::low_rank token by token. In parallel over sequences and key
/// heads.
void backward_on_cpu(const BackwardCall& call);

}  // namespace fla::recurrence
