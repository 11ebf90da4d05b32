#include "fla/ops/kda/kda.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable KdaArgs::arguments() { FLA_RETURN_RECURRENCE_TABLE(KdaArgs, FLA_KDA_ARGUMENTS); }

ArgumentTable KdaBackwardArgs::arguments() { FLA_RETURN_BACKWARD_TABLE(KdaBackwardArgs, FLA_KDA_ARGUMENTS); }

ArgumentTable KdaReplayArgs::arguments() { FLA_RETURN_REPLAY_TABLE(KdaReplayArgs, FLA_KDA_ARGUMENTS); }

ArgumentTable KdaFoldArgs::arguments() { FLA_RETURN_FOLD_TABLE(KdaFoldArgs, FLA_KDA_ARGUMENTS); }

ArgumentTable KdaSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(KdaSummaryArgs, FLA_KDA_ARGUMENTS, FLA_SQUARE_P);
}

DISPATCH("kda", KdaResult, chunk_kda, const KdaArgs& args) { return recurrence::run_chunk(args); }

DISPATCH("kda", KdaResult, fused_recurrent_kda, const KdaArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("kda", RecurrenceGradients, chunk_kda_backward, const KdaBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("kda", ReplayResult, replay_kda, const KdaReplayArgs& args) { return recurrence::run_replay(args); }

DISPATCH("kda", FoldResult, fold_kda, const KdaFoldArgs& args) { return recurrence::run_fold(args); }

DISPATCH("kda", RecurrenceSummary, kda_summary, const KdaSummaryArgs& args) {
  return recurrence::run_summary(args);
}

KdaResult kda(const KdaArgs& args) {
  return front_door(args) == KdaArgs::kOp.chunk ? chunk_kda(args) : fused_recurrent_kda(args);
}

}  // namespace fla
