#include "fla/ops/delta_rule/delta_rule.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable DeltaRuleArgs::arguments() {
  FLA_RETURN_RECURRENCE_TABLE(DeltaRuleArgs, FLA_DELTA_RULE_ARGUMENTS);
}

ArgumentTable DeltaRuleBackwardArgs::arguments() {
  FLA_RETURN_BACKWARD_TABLE(DeltaRuleBackwardArgs, FLA_DELTA_RULE_ARGUMENTS);
}

ArgumentTable DeltaRuleReplayArgs::arguments() {
  FLA_RETURN_REPLAY_TABLE(DeltaRuleReplayArgs, FLA_DELTA_RULE_ARGUMENTS);
}

ArgumentTable DeltaRuleFoldArgs::arguments() {
  FLA_RETURN_FOLD_TABLE(DeltaRuleFoldArgs, FLA_DELTA_RULE_ARGUMENTS);
}

ArgumentTable DeltaRuleSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(DeltaRuleSummaryArgs, FLA_DELTA_RULE_ARGUMENTS, FLA_SQUARE_P);
}

DISPATCH("delta_rule", RecurrenceResult, chunk_delta_rule, const DeltaRuleArgs& args) {
  return recurrence::run_chunk(args);
}

DISPATCH("delta_rule", RecurrenceResult, fused_recurrent_delta_rule, const DeltaRuleArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("delta_rule", RecurrenceGradients, chunk_delta_rule_backward, const DeltaRuleBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("delta_rule", ReplayResult, replay_delta_rule, const DeltaRuleReplayArgs& args) {
  return recurrence::run_replay(args);
}

DISPATCH("delta_rule", FoldResult, fold_delta_rule, const DeltaRuleFoldArgs& args) {
  return recurrence::run_fold(args);
}

DISPATCH("delta_rule", RecurrenceSummary, delta_rule_summary, const DeltaRuleSummaryArgs& args) {
  return recurrence::run_summary(args);
}

RecurrenceResult delta_rule(const DeltaRuleArgs& args) {
  return front_door(args) == DeltaRuleArgs::kOp.chunk ? chunk_delta_rule(args)
                                                      : fused_recurrent_delta_rule(args);
}

}  // namespace fla
