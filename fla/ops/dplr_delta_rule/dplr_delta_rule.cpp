#include "fla/ops/dplr_delta_rule/dplr_delta_rule.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable DplrDeltaRuleArgs::arguments() {
  FLA_RETURN_RECURRENCE_TABLE(DplrDeltaRuleArgs, FLA_DPLR_DELTA_RULE_ARGUMENTS);
}

ArgumentTable DplrDeltaRuleBackwardArgs::arguments() {
  FLA_RETURN_BACKWARD_TABLE(DplrDeltaRuleBackwardArgs, FLA_DPLR_DELTA_RULE_ARGUMENTS);
}

ArgumentTable DplrDeltaRuleReplayArgs::arguments() {
  FLA_RETURN_REPLAY_TABLE(DplrDeltaRuleReplayArgs, FLA_DPLR_DELTA_RULE_ARGUMENTS);
}

ArgumentTable DplrDeltaRuleFoldArgs::arguments() {
  FLA_RETURN_FOLD_TABLE(DplrDeltaRuleFoldArgs, FLA_DPLR_DELTA_RULE_ARGUMENTS);
}

ArgumentTable DplrDeltaRuleSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(DplrDeltaRuleSummaryArgs, FLA_DPLR_DELTA_RULE_ARGUMENTS, FLA_SQUARE_P);
}

DISPATCH("dplr_delta_rule", RecurrenceResult, chunk_dplr_delta_rule, const DplrDeltaRuleArgs& args) {
  return recurrence::run_chunk(args);
}

DISPATCH("dplr_delta_rule", RecurrenceResult, fused_recurrent_dplr_delta_rule,
         const DplrDeltaRuleArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("dplr_delta_rule", RecurrenceGradients, chunk_dplr_delta_rule_backward,
         const DplrDeltaRuleBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("dplr_delta_rule", ReplayResult, replay_dplr_delta_rule, const DplrDeltaRuleReplayArgs& args) {
  return recurrence::run_replay(args);
}

DISPATCH("dplr_delta_rule", FoldResult, fold_dplr_delta_rule, const DplrDeltaRuleFoldArgs& args) {
  return recurrence::run_fold(args);
}

DISPATCH("dplr_delta_rule", RecurrenceSummary, dplr_delta_rule_summary,
         const DplrDeltaRuleSummaryArgs& args) {
  return recurrence::run_summary(args);
}

RecurrenceResult dplr_delta_rule(const DplrDeltaRuleArgs& args) {
  return front_door(args) == DplrDeltaRuleArgs::kOp.chunk ? chunk_dplr_delta_rule(args)
                                                          : fused_recurrent_dplr_delta_rule(args);
}

}  // namespace fla
