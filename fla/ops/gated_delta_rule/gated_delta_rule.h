#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// Gated DeltaNet: the delta rule with one gate a token and value head. Per sequence and value head, with
/// a state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- exp(g_t) S
///     S <- S + k_t (beta_t (v_t - k_t^T S))^T
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_GATED_DELTA_RULE_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, \
                                       FORWARD)                                                          \
  FLA_PART_TOKENS(TOKEN, RING)                                                                           \
  TOKEN(g, required, kFloatTypes, "B T HV", "log-decay; raw with use_gate_in_kernel")                    \
  RING(ring_g, required, kFloatTypes, "P L HV", FLA_RING_G)                                              \
  FLA_PART_BETA(TOKEN, FLA_RAW_BETA)                                                                     \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                          \
  FLA_PART_NORM(FLAG)                                                                                    \
  FLA_PART_GATE_AND_SIGMOID(NUMBER, FLAG)                                                                \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                                 \
  FLA_PART_GATE_PARAMETERS(TENSOR, "HV")                                                                 \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every gated_delta_rule function, under the names that flash-linear-attention gives them.
struct GatedDeltaRuleArgs {
  using Result = RecurrenceResult;
  using Forward = GatedDeltaRuleArgs;
  using Backward = struct GatedDeltaRuleBackwardArgs;
  using Replay = struct GatedDeltaRuleReplayArgs;
  using Fold = struct GatedDeltaRuleFoldArgs;
  using Summary = struct GatedDeltaRuleSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "gated_delta_rule",
                                    .title = "Gated DeltaNet",
                                    .chunk = "chunk_gated_delta_rule",
                                    .recurrent = "fused_recurrent_gated_delta_rule",
                                    .backward = "chunk_gated_delta_rule_backward",
                                    .replay = "replay_gated_delta_rule",
                                    .fold = "fold_gated_delta_rule",
                                    .summary = "gated_delta_rule_summary",
                                    .gate = GateKind::token,
                                    .rule = Rule::delta};

  FLA_RECURRENCE_MEMBERS(FLA_GATED_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_gated_delta_rule_backward: the forward call's, and gradients in and out.
struct GatedDeltaRuleBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = GatedDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = GatedDeltaRuleArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_GATED_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of replay_gated_delta_rule: a step's tokens, and states with rings.
struct GatedDeltaRuleReplayArgs {
  using Result = ReplayResult;
  using Forward = GatedDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = GatedDeltaRuleArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_GATED_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_gated_delta_rule: states with rings, and the options of the steps.
struct GatedDeltaRuleFoldArgs {
  using Result = FoldResult;
  using Forward = GatedDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = GatedDeltaRuleArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_GATED_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of gated_delta_rule_summary: the forward call's, and with `do` the gradients that come in.
struct GatedDeltaRuleSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = GatedDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = GatedDeltaRuleArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_GATED_DELTA_RULE_ARGUMENTS, FLA_SQUARE_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_gated_delta_rule, others to chunk_gated_delta_rule.
FLA_API RecurrenceResult gated_delta_rule(const GatedDeltaRuleArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API RecurrenceResult chunk_gated_delta_rule(const GatedDeltaRuleArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API RecurrenceResult fused_recurrent_gated_delta_rule(const GatedDeltaRuleArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_gated_delta_rule_backward(const GatedDeltaRuleBackwardArgs& args);

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_gated_delta_rule(const GatedDeltaRuleReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_gated_delta_rule(const GatedDeltaRuleFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary gated_delta_rule_summary(const GatedDeltaRuleSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_gated_delta_rule(const GatedDeltaRuleArgs& args);
FLA_API RecurrenceResult fused_recurrent_gated_delta_rule(const GatedDeltaRuleArgs& args);
FLA_API RecurrenceGradients chunk_gated_delta_rule_backward(const GatedDeltaRuleBackwardArgs& args);
FLA_API ReplayResult replay_gated_delta_rule(const GatedDeltaRuleReplayArgs& args);
FLA_API FoldResult fold_gated_delta_rule(const GatedDeltaRuleFoldArgs& args);
FLA_API RecurrenceSummary gated_delta_rule_summary(const GatedDeltaRuleSummaryArgs& args);
}  // namespace original

/// Subclass this to serve gated_delta_rule; override what the backend has.
FLA_RECURRENCE_BACKEND(GatedDeltaRuleBackend, GatedDeltaRule, chunk_gated_delta_rule,
                       fused_recurrent_gated_delta_rule, replay_gated_delta_rule, fold_gated_delta_rule,
                       gated_delta_rule_summary);

}  // namespace fla
