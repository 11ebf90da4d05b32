#pragma once

#include "fla/ops/recurrence/arguments.h"
#include "fla/ops/recurrence/call.h"
#include "fla/ops/recurrence/replay_call.h"

namespace fla {
namespace recurrence {

FLA_API RecurrenceCall call_of(const Arguments& args, const RecurrenceResult& result);
FLA_API LowRankPair pair_of(const Arguments& args);
FLA_API CallExtras extras_of(const Arguments& args);
FLA_API BackwardCall call_of(const BackwardArguments& args, const RecurrenceGradients& result);
FLA_API ReplayCall call_of(const ReplayArguments& args, const ReplayResult& result);

}  // namespace recurrence

/// The call that validated arguments stand for. `result` is where its results go.
template <RecurrenceArgs Args>
RecurrenceCall call_of(const Args& args, const RecurrenceResult& result) {
  return recurrence::call_of(recurrence::arguments_of(args), result);
}

template <BackwardArgs Args>
BackwardCall call_of(const Args& args, const RecurrenceGradients& result) {
  return recurrence::call_of(recurrence::backward_arguments_of(args), result);
}

}  // namespace fla
