#include "fla/ops/lightning_attn/lightning_attn.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable LightningAttnArgs::arguments() {
  FLA_RETURN_RECURRENCE_TABLE(LightningAttnArgs, FLA_LIGHTNING_ATTN_ARGUMENTS);
}

ArgumentTable LightningAttnBackwardArgs::arguments() {
  FLA_RETURN_BACKWARD_TABLE(LightningAttnBackwardArgs, FLA_LIGHTNING_ATTN_ARGUMENTS);
}

ArgumentTable LightningAttnReplayArgs::arguments() {
  FLA_RETURN_REPLAY_TABLE(LightningAttnReplayArgs, FLA_LIGHTNING_ATTN_ARGUMENTS);
}

ArgumentTable LightningAttnFoldArgs::arguments() {
  FLA_RETURN_FOLD_TABLE(LightningAttnFoldArgs, FLA_LIGHTNING_ATTN_ARGUMENTS);
}

ArgumentTable LightningAttnSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(LightningAttnSummaryArgs, FLA_LIGHTNING_ATTN_ARGUMENTS, FLA_DIAGONAL_P);
}

DISPATCH("lightning_attn", RecurrenceResult, chunk_lightning_attn, const LightningAttnArgs& args) {
  return recurrence::run_chunk(args);
}

DISPATCH("lightning_attn", RecurrenceResult, fused_recurrent_lightning_attn, const LightningAttnArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("lightning_attn", RecurrenceGradients, chunk_lightning_attn_backward,
         const LightningAttnBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("lightning_attn", ReplayResult, replay_lightning_attn, const LightningAttnReplayArgs& args) {
  return recurrence::run_replay(args);
}

DISPATCH("lightning_attn", FoldResult, fold_lightning_attn, const LightningAttnFoldArgs& args) {
  return recurrence::run_fold(args);
}

DISPATCH("lightning_attn", RecurrenceSummary, lightning_attn_summary, const LightningAttnSummaryArgs& args) {
  return recurrence::run_summary(args);
}

RecurrenceResult lightning_attn(const LightningAttnArgs& args) {
  return front_door(args) == LightningAttnArgs::kOp.chunk ? chunk_lightning_attn(args)
                                                          : fused_recurrent_lightning_attn(args);
}

}  // namespace fla
