#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/kda/kda.h"
#include "fla/ops/step/step.h"

/// A decoding step of a layer of Kimi Delta Attention: convolution, recurrence and gated norm. Per sequence
/// and value head, with a state S of shape [K, V], and i going over the channels of q, k and v,
///
///     y_i = conv_bias_i + sum over j of conv_weight_ij * x_(t - W + 1 + j),i
///     q_t, k_t, v_t = y * sigmoid(y)
///     S <- diag(exp(g_t)) S
///     S <- S + k_t (beta_t (v_t - k_t^T S))^T
///     o_t = scale * q_t^T S
///     out_t = o_t * rsqrt(mean(o_t^2) + norm_eps) * norm_weight * z_t * sigmoid(z_t)
///
/// fla/ops/step/step.h has what holds for every step, fla/ops/kda/kda.h what its options do.
namespace fla {

#define FLA_KDA_STEP_ARGUMENTS(TENSOR, POOL, INDEX, OUTPUT, NUMBER, FLAG)   \
  FLA_STEP_ARGUMENTS(TENSOR, POOL, INDEX, OUTPUT, NUMBER, FLAG, "B T HV K", \
                     "log-decay of every channel; raw with use_gate_in_kernel", "HV*K | HV K")

struct KdaStepArgs {
  using Result = StepResult;
  static constexpr StepOp kOp{.name = "kda_step", .recurrence = KdaArgs::kOp};

  FLA_STEP_MEMBERS(FLA_KDA_STEP_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// One token of every sequence, in place in both pools.
FLA_API StepResult kda_step(const KdaStepArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API StepResult kda_step(const KdaStepArgs& args);
}  // namespace original

/// Subclass this to serve kda_step.
FLA_STEP_BACKEND(KdaStepBackend, KdaStepArgs, kda_step);

}  // namespace fla
