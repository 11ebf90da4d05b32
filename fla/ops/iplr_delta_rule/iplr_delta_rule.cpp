#include "fla/ops/iplr_delta_rule/iplr_delta_rule.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable IplrDeltaRuleArgs::arguments() {
  FLA_RETURN_RECURRENCE_TABLE(IplrDeltaRuleArgs, FLA_IPLR_DELTA_RULE_ARGUMENTS);
}

ArgumentTable IplrDeltaRuleBackwardArgs::arguments() {
  FLA_RETURN_BACKWARD_TABLE(IplrDeltaRuleBackwardArgs, FLA_IPLR_DELTA_RULE_ARGUMENTS);
}

ArgumentTable IplrDeltaRuleReplayArgs::arguments() {
  FLA_RETURN_REPLAY_TABLE(IplrDeltaRuleReplayArgs, FLA_IPLR_DELTA_RULE_ARGUMENTS);
}

ArgumentTable IplrDeltaRuleFoldArgs::arguments() {
  FLA_RETURN_FOLD_TABLE(IplrDeltaRuleFoldArgs, FLA_IPLR_DELTA_RULE_ARGUMENTS);
}

ArgumentTable IplrDeltaRuleSummaryArgs::arguments() {
  FLA_RETURN_SUMMARY_TABLE(IplrDeltaRuleSummaryArgs, FLA_IPLR_DELTA_RULE_ARGUMENTS, FLA_SQUARE_P);
}

DISPATCH("iplr_delta_rule", RecurrenceResult, chunk_iplr_delta_rule, const IplrDeltaRuleArgs& args) {
  return recurrence::run_chunk(args);
}

DISPATCH("iplr_delta_rule", RecurrenceResult, fused_recurrent_iplr_delta_rule,
         const IplrDeltaRuleArgs& args) {
  return recurrence::run_recurrent(args);
}

DISPATCH("iplr_delta_rule", RecurrenceGradients, chunk_iplr_delta_rule_backward,
         const IplrDeltaRuleBackwardArgs& args) {
  return recurrence::run_backward(args);
}

DISPATCH("iplr_delta_rule", ReplayResult, replay_iplr_delta_rule, const IplrDeltaRuleReplayArgs& args) {
  return recurrence::run_replay(args);
}

DISPATCH("iplr_delta_rule", FoldResult, fold_iplr_delta_rule, const IplrDeltaRuleFoldArgs& args) {
  return recurrence::run_fold(args);
}

DISPATCH("iplr_delta_rule", RecurrenceSummary, iplr_delta_rule_summary,
         const IplrDeltaRuleSummaryArgs& args) {
  return recurrence::run_summary(args);
}

RecurrenceResult iplr_delta_rule(const IplrDeltaRuleArgs& args) {
  return front_door(args) == IplrDeltaRuleArgs::kOp.chunk ? chunk_iplr_delta_rule(args)
                                                          : fused_recurrent_iplr_delta_rule(args);
}

}  // namespace fla
