#include "fla/ops/simple_gla/simple_gla.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable SimpleGlaArgs::arguments() {
  FLA_RETURN_RECURRENCE_TABLE(SimpleGlaArgs, FLA_SIMPLE_GLA_ARGUMENTS);
}

ArgumentTable SimpleGlaBackwardArgs::arguments() {
  FLA_RETURN_BACKWARD_TABLE(SimpleGlaBackwardArgs, FLA_SIMPLE_GLA_ARGUMENTS);
}

ArgumentTable SimpleGlaReplayArgs::arguments() {
  FLA_RETURN_REPLAY_TABLE(SimpleGlaReplayArgs, FLA_SIMPLE_GLA_ARGUMENTS);
}

ArgumentTable SimpleGlaFoldArgs::arguments() {
  FLA_RETURN_FOLD_TABLE(SimpleGlaFoldArgs, FLA_SIMPLE_GLA_ARGUMENTS);
}

ArgumentTable SimpleGlaSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(SimpleGlaSummaryArgs, FLA_SIMPLE_GLA_ARGUMENTS, FLA_DIAGONAL_P);
}

DISPATCH("simple_gla", RecurrenceResult, chunk_simple_gla, const SimpleGlaArgs& args) {
  return recurrence::run_chunk(args);
}

DISPATCH("simple_gla", RecurrenceResult, fused_recurrent_simple_gla, const SimpleGlaArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("simple_gla", RecurrenceGradients, chunk_simple_gla_backward, const SimpleGlaBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("simple_gla", ReplayResult, replay_simple_gla, const SimpleGlaReplayArgs& args) {
  return recurrence::run_replay(args);
}

DISPATCH("simple_gla", FoldResult, fold_simple_gla, const SimpleGlaFoldArgs& args) {
  return recurrence::run_fold(args);
}

DISPATCH("simple_gla", RecurrenceSummary, simple_gla_summary, const SimpleGlaSummaryArgs& args) {
  return recurrence::run_summary(args);
}

RecurrenceResult simple_gla(const SimpleGlaArgs& args) {
  return front_door(args) == SimpleGlaArgs::kOp.chunk ? chunk_simple_gla(args)
                                                      : fused_recurrent_simple_gla(args);
}

}  // namespace fla
