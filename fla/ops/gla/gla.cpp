#include "fla/ops/gla/gla.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable GlaArgs::arguments() { FLA_RETURN_RECURRENCE_TABLE(GlaArgs, FLA_GLA_ARGUMENTS); }

ArgumentTable GlaBackwardArgs::arguments() { FLA_RETURN_BACKWARD_TABLE(GlaBackwardArgs, FLA_GLA_ARGUMENTS); }

ArgumentTable GlaReplayArgs::arguments() { FLA_RETURN_REPLAY_TABLE(GlaReplayArgs, FLA_GLA_ARGUMENTS); }

ArgumentTable GlaFoldArgs::arguments() { FLA_RETURN_FOLD_TABLE(GlaFoldArgs, FLA_GLA_ARGUMENTS); }

ArgumentTable GlaSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(GlaSummaryArgs, FLA_GLA_ARGUMENTS, FLA_DIAGONAL_P);
}

DISPATCH("gla", RecurrenceResult, chunk_gla, const GlaArgs& args) { return recurrence::run_chunk(args); }

DISPATCH("gla", RecurrenceResult, fused_recurrent_gla, const GlaArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("gla", RecurrenceGradients, chunk_gla_backward, const GlaBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("gla", ReplayResult, replay_gla, const GlaReplayArgs& args) { return recurrence::run_replay(args); }

DISPATCH("gla", FoldResult, fold_gla, const GlaFoldArgs& args) { return recurrence::run_fold(args); }

DISPATCH("gla", RecurrenceSummary, gla_summary, const GlaSummaryArgs& args) {
  return recurrence::run_summary(args);
}

RecurrenceResult gla(const GlaArgs& args) {
  return front_door(args) == GlaArgs::kOp.chunk ? chunk_gla(args) : fused_recurrent_gla(args);
}

}  // namespace fla
