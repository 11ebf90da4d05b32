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

/// The calls that a summary is made of, none of which has outputs. The one that leaves R, without `do` …
FLA_API RecurrenceCall forward_summary_of(const SummaryArguments& args, const RecurrenceSummary& result);
/// … and with it …
FLA_API BackwardCall backward_summary_of(const SummaryArguments& args, const RecurrenceSummary& result);
/// … and the one that leaves P: what tokens without values make of the identity, of additive ops of a column
/// of ones. `zero` is a float, `identity` [K, K] or, of additive ops, a one. P has a slot a sequence.
inline RecurrenceCall transition_of(RecurrenceCall call, const common::States& P, const float* zero,
                                    const float* identity) {
  const bool diagonal = call.rule == Rule::additive;
  call.V = diagonal ? 1 : call.K;
  call.v = {.data = const_cast<float*>(zero)};
  call.o = {};
  call.initial_state = {.data = const_cast<float*>(identity),
                        .slots = call.N,
                        .key = diagonal ? 0 : call.K,
                        .value = diagonal ? 0 : 1};
  call.final_state = P;
  return call;
}
FLA_API RecurrenceCall transition_of(const SummaryArguments& args, const RecurrenceSummary& result,
                                     const float* zero, const float* identity);

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
