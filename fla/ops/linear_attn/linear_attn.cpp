#include "fla/ops/linear_attn/linear_attn.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable LinearAttnArgs::arguments() {
  FLA_RETURN_RECURRENCE_TABLE(LinearAttnArgs, FLA_LINEAR_ATTN_ARGUMENTS);
}

ArgumentTable LinearAttnBackwardArgs::arguments() {
  FLA_RETURN_BACKWARD_TABLE(LinearAttnBackwardArgs, FLA_LINEAR_ATTN_ARGUMENTS);
}

ArgumentTable LinearAttnReplayArgs::arguments() {
  FLA_RETURN_REPLAY_TABLE(LinearAttnReplayArgs, FLA_LINEAR_ATTN_ARGUMENTS);
}

ArgumentTable LinearAttnFoldArgs::arguments() {
  FLA_RETURN_FOLD_TABLE(LinearAttnFoldArgs, FLA_LINEAR_ATTN_ARGUMENTS);
}

ArgumentTable LinearAttnSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(LinearAttnSummaryArgs, FLA_LINEAR_ATTN_ARGUMENTS, FLA_DIAGONAL_P);
}

DISPATCH("linear_attn", RecurrenceResult, chunk_linear_attn, const LinearAttnArgs& args) {
  return recurrence::run_chunk(args);
}

DISPATCH("linear_attn", RecurrenceResult, fused_recurrent_linear_attn, const LinearAttnArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("linear_attn", RecurrenceGradients, chunk_linear_attn_backward, const LinearAttnBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("linear_attn", ReplayResult, replay_linear_attn, const LinearAttnReplayArgs& args) {
  return recurrence::run_replay(args);
}

DISPATCH("linear_attn", FoldResult, fold_linear_attn, const LinearAttnFoldArgs& args) {
  return recurrence::run_fold(args);
}

DISPATCH("linear_attn", RecurrenceSummary, linear_attn_summary, const LinearAttnSummaryArgs& args) {
  return recurrence::run_summary(args);
}

RecurrenceResult linear_attn(const LinearAttnArgs& args) {
  return front_door(args) == LinearAttnArgs::kOp.chunk ? chunk_linear_attn(args)
                                                       : fused_recurrent_linear_attn(args);
}

}  // namespace fla
