#include "fla/ops/gated_delta_rule_step/gated_delta_rule_step.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/step/original.h"

namespace fla {

ArgumentTable GatedDeltaRuleStepArgs::arguments() {
  FLA_RETURN_STEP_TABLE(GatedDeltaRuleStepArgs, FLA_GATED_DELTA_RULE_STEP_ARGUMENTS);
}

DISPATCH("gated_delta_rule_step", StepResult, gated_delta_rule_step, const GatedDeltaRuleStepArgs& args) {
  return step::run(args);
}

}  // namespace fla
