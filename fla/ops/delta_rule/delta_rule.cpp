#include "fla/ops/delta_rule/delta_rule.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/recurrence/original.h"

namespace fla {

ArgumentTable DeltaRuleArgs::arguments() {
  FLA_RETURN_ARGUMENT_TABLE(DeltaRuleArgs, FLA_DELTA_RULE_ARGUMENTS);
}

DISPATCH("delta_rule", RecurrenceResult, chunk_delta_rule, const DeltaRuleArgs& args) {
  return recurrence::run_chunk(args);
}

DISPATCH("delta_rule", RecurrenceResult, fused_recurrent_delta_rule, const DeltaRuleArgs& args) {
  return recurrence::run_recurrent(args);
}

RecurrenceResult delta_rule(const DeltaRuleArgs& args) {
  return front_door(args) == DeltaRuleArgs::kOp.chunk ? chunk_delta_rule(args)
                                                      : fused_recurrent_delta_rule(args);
}

}  // namespace fla
