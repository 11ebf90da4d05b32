#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"

/// Gated linear attention: a gate for every channel, and keys and values are added. Per sequence and value
/// head, with a state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- diag(exp(g_t)) S + k_t v_t^T
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_GLA_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, FORWARD) \
  FLA_PART_TOKENS(TENSOR)                                                        \
  TENSOR(g, required, kFloatTypes, "B T HV K", "log-decay of every channel")     \
  FLA_PART_STATES(TENSOR, NUMBER, FLAG, FORWARD)                                 \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                         \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every gla function, under the names that flash-linear-attention gives them.
struct GlaArgs {
  using Result = RecurrenceResult;
  using Forward = GlaArgs;
  using Backward = struct GlaBackwardArgs;
  using Summary = struct GlaSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "gla",
                                    .title = "Gated linear attention",
                                    .chunk = "chunk_gla",
                                    .recurrent = "fused_recurrent_gla",
                                    .backward = "chunk_gla_backward",
                                    .summary = "gla_summary",
                                    .gate = GateKind::channel,
                                    .rule = Rule::additive};

  FLA_RECURRENCE_MEMBERS(FLA_GLA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_gla_backward: the forward call's, and gradients in and out.
struct GlaBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = GlaArgs;
  static constexpr RecurrenceOp kOp = GlaArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_GLA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of gla_summary: the forward call's, and with `do` the gradients that come in.
struct GlaSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = GlaArgs;
  static constexpr RecurrenceOp kOp = GlaArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_GLA_ARGUMENTS, FLA_DIAGONAL_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_gla, others to chunk_gla.
FLA_API RecurrenceResult gla(const GlaArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API RecurrenceResult chunk_gla(const GlaArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API RecurrenceResult fused_recurrent_gla(const GlaArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_gla_backward(const GlaBackwardArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary gla_summary(const GlaSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_gla(const GlaArgs& args);
FLA_API RecurrenceResult fused_recurrent_gla(const GlaArgs& args);
FLA_API RecurrenceGradients chunk_gla_backward(const GlaBackwardArgs& args);
FLA_API RecurrenceSummary gla_summary(const GlaSummaryArgs& args);
}  // namespace original

/// Subclass this to serve gla; override what the backend has.
FLA_RECURRENCE_BACKEND(GlaBackend, Gla, chunk_gla, fused_recurrent_gla, gla_summary);

}  // namespace fla
