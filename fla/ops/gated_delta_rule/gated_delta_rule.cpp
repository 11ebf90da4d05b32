#include "fla/ops/gated_delta_rule/gated_delta_rule.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable GatedDeltaRuleArgs::arguments() {
  FLA_RETURN_RECURRENCE_TABLE(GatedDeltaRuleArgs, FLA_GATED_DELTA_RULE_ARGUMENTS);
}

ArgumentTable GatedDeltaRuleBackwardArgs::arguments() {
  FLA_RETURN_BACKWARD_TABLE(GatedDeltaRuleBackwardArgs, FLA_GATED_DELTA_RULE_ARGUMENTS);
}

ArgumentTable GatedDeltaRuleReplayArgs::arguments() {
  FLA_RETURN_REPLAY_TABLE(GatedDeltaRuleReplayArgs, FLA_GATED_DELTA_RULE_ARGUMENTS);
}

ArgumentTable GatedDeltaRuleFoldArgs::arguments() {
  FLA_RETURN_FOLD_TABLE(GatedDeltaRuleFoldArgs, FLA_GATED_DELTA_RULE_ARGUMENTS);
}

ArgumentTable GatedDeltaRuleSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(GatedDeltaRuleSummaryArgs, FLA_GATED_DELTA_RULE_ARGUMENTS, FLA_SQUARE_P);
}

DISPATCH("gated_delta_rule", RecurrenceResult, chunk_gated_delta_rule, const GatedDeltaRuleArgs& args) {
  return recurrence::run_chunk(args);
}

DISPATCH("gated_delta_rule", RecurrenceResult, fused_recurrent_gated_delta_rule,
         const GatedDeltaRuleArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("gated_delta_rule", RecurrenceGradients, chunk_gated_delta_rule_backward,
         const GatedDeltaRuleBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("gated_delta_rule", ReplayResult, replay_gated_delta_rule, const GatedDeltaRuleReplayArgs& args) {
  return recurrence::run_replay(args);
}

DISPATCH("gated_delta_rule", FoldResult, fold_gated_delta_rule, const GatedDeltaRuleFoldArgs& args) {
  return recurrence::run_fold(args);
}

DISPATCH("gated_delta_rule", RecurrenceSummary, gated_delta_rule_summary,
         const GatedDeltaRuleSummaryArgs& args) {
  return recurrence::run_summary(args);
}

RecurrenceResult gated_delta_rule(const GatedDeltaRuleArgs& args) {
  return front_door(args) == GatedDeltaRuleArgs::kOp.chunk ? chunk_gated_delta_rule(args)
                                                           : fused_recurrent_gated_delta_rule(args);
}

}  // namespace fla
