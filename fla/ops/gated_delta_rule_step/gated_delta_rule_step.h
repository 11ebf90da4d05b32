#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/gated_delta_rule/gated_delta_rule.h"
#include "fla/ops/step/step.h"

/// A decoding step of a layer of Gated DeltaNet: convolution, recurrence and gated norm. Per sequence and
/// value head, with a state S of shape [K, V], and i going over the channels of q, k and v,
///
///     y_i = conv_bias_i + sum over j of conv_weight_ij * x_(t - W + 1 + j),i
///     q_t, k_t, v_t = y * sigmoid(y)
///     S <- exp(g_t) S
///     S <- S + k_t (beta_t (v_t - k_t^T S))^T
///     o_t = scale * q_t^T S
///     out_t = o_t * rsqrt(mean(o_t^2) + norm_eps) * norm_weight * z_t * sigmoid(z_t)
///
/// fla/ops/step/step.h has what holds for every step, fla/ops/gated_delta_rule/gated_delta_rule.h what its
/// options do.
namespace fla {

#define FLA_GATED_DELTA_RULE_STEP_ARGUMENTS(TENSOR, POOL, INDEX, OUTPUT, NUMBER, FLAG) \
  FLA_STEP_ARGUMENTS(TENSOR, POOL, INDEX, OUTPUT, NUMBER, FLAG, "B T HV",              \
                     "log-decay; raw with use_gate_in_kernel", "HV")

struct GatedDeltaRuleStepArgs {
  using Result = StepResult;
  static constexpr StepOp kOp{.name = "gated_delta_rule_step", .recurrence = GatedDeltaRuleArgs::kOp};

  FLA_STEP_MEMBERS(FLA_GATED_DELTA_RULE_STEP_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// One token of every sequence, in place in both pools.
FLA_API StepResult gated_delta_rule_step(const GatedDeltaRuleStepArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API StepResult gated_delta_rule_step(const GatedDeltaRuleStepArgs& args);
}  // namespace original

/// Subclass this to serve gated_delta_rule_step.
FLA_STEP_BACKEND(GatedDeltaRuleStepBackend, GatedDeltaRuleStepArgs, gated_delta_rule_step);

}  // namespace fla
