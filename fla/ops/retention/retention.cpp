#include "fla/ops/retention/retention.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable RetentionArgs::arguments() {
  FLA_RETURN_RECURRENCE_TABLE(RetentionArgs, FLA_RETENTION_ARGUMENTS);
}

ArgumentTable RetentionBackwardArgs::arguments() {
  FLA_RETURN_BACKWARD_TABLE(RetentionBackwardArgs, FLA_RETENTION_ARGUMENTS);
}

ArgumentTable RetentionReplayArgs::arguments() {
  FLA_RETURN_REPLAY_TABLE(RetentionReplayArgs, FLA_RETENTION_ARGUMENTS);
}

ArgumentTable RetentionFoldArgs::arguments() {
  FLA_RETURN_FOLD_TABLE(RetentionFoldArgs, FLA_RETENTION_ARGUMENTS);
}

ArgumentTable RetentionSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(RetentionSummaryArgs, FLA_RETENTION_ARGUMENTS, FLA_DIAGONAL_P);
}

DISPATCH("retention", RecurrenceResult, chunk_retention, const RetentionArgs& args) {
  return recurrence::run_chunk(args);
}

DISPATCH("retention", RecurrenceResult, fused_recurrent_retention, const RetentionArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("retention", RecurrenceGradients, chunk_retention_backward, const RetentionBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("retention", ReplayResult, replay_retention, const RetentionReplayArgs& args) {
  return recurrence::run_replay(args);
}

DISPATCH("retention", FoldResult, fold_retention, const RetentionFoldArgs& args) {
  return recurrence::run_fold(args);
}

DISPATCH("retention", RecurrenceSummary, retention_summary, const RetentionSummaryArgs& args) {
  return recurrence::run_summary(args);
}

RecurrenceResult retention(const RetentionArgs& args) {
  return front_door(args) == RetentionArgs::kOp.chunk ? chunk_retention(args)
                                                      : fused_recurrent_retention(args);
}

}  // namespace fla
