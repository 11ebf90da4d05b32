#include "fla/ops/kda_step/kda_step.h"

#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/step/original.h"

namespace fla {

ArgumentTable KdaStepArgs::arguments() { FLA_RETURN_STEP_TABLE(KdaStepArgs, FLA_KDA_STEP_ARGUMENTS); }

DISPATCH("kda_step", StepResult, kda_step, const KdaStepArgs& args) { return step::run(args); }

}  // namespace fla
