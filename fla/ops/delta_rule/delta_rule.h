#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// DeltaNet: the delta rule, with nothing that decays. Per sequence and value head, with a state S of
/// shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- S + k_t (beta_t (v_t - k_t^T S))^T
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_DELTA_RULE_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, FORWARD) \
  FLA_PART_TOKENS(TOKEN, RING)                                                                              \
  FLA_PART_BETA(TOKEN, "how far a key is rewritten")                                                        \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                             \
  FLA_PART_NORM(FLAG)                                                                                       \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                                    \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every delta_rule function, under the names that flash-linear-attention gives them.
struct DeltaRuleArgs {
  using Result = RecurrenceResult;
  using Forward = DeltaRuleArgs;
  using Backward = struct DeltaRuleBackwardArgs;
  using Replay = struct DeltaRuleReplayArgs;
  using Fold = struct DeltaRuleFoldArgs;
  using Summary = struct DeltaRuleSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "delta_rule",
                                    .title = "DeltaNet",
                                    .chunk = "chunk_delta_rule",
                                    .recurrent = "fused_recurrent_delta_rule",
                                    .backward = "chunk_delta_rule_backward",
                                    .replay = "replay_delta_rule",
                                    .fold = "fold_delta_rule",
                                    .summary = "delta_rule_summary",
                                    .gate = GateKind::none,
                                    .rule = Rule::delta};

  FLA_RECURRENCE_MEMBERS(FLA_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_delta_rule_backward: the forward call's, and gradients in and out.
struct DeltaRuleBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = DeltaRuleArgs;
  static constexpr RecurrenceOp kOp = DeltaRuleArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of replay_delta_rule: a step's tokens, and states with rings.
struct DeltaRuleReplayArgs {
  using Result = ReplayResult;
  using Forward = DeltaRuleArgs;
  static constexpr RecurrenceOp kOp = DeltaRuleArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_delta_rule: states with rings, and the options of the steps.
struct DeltaRuleFoldArgs {
  using Result = FoldResult;
  using Forward = DeltaRuleArgs;
  static constexpr RecurrenceOp kOp = DeltaRuleArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of delta_rule_summary: the forward call's, and with `do` the gradients that come in.
struct DeltaRuleSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = DeltaRuleArgs;
  static constexpr RecurrenceOp kOp = DeltaRuleArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_DELTA_RULE_ARGUMENTS, FLA_SQUARE_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_delta_rule, others to chunk_delta_rule.
FLA_API RecurrenceResult delta_rule(const DeltaRuleArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API RecurrenceResult chunk_delta_rule(const DeltaRuleArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API RecurrenceResult fused_recurrent_delta_rule(const DeltaRuleArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_delta_rule_backward(const DeltaRuleBackwardArgs& args);

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_delta_rule(const DeltaRuleReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_delta_rule(const DeltaRuleFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary delta_rule_summary(const DeltaRuleSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_delta_rule(const DeltaRuleArgs& args);
FLA_API RecurrenceResult fused_recurrent_delta_rule(const DeltaRuleArgs& args);
FLA_API RecurrenceGradients chunk_delta_rule_backward(const DeltaRuleBackwardArgs& args);
FLA_API ReplayResult replay_delta_rule(const DeltaRuleReplayArgs& args);
FLA_API FoldResult fold_delta_rule(const DeltaRuleFoldArgs& args);
FLA_API RecurrenceSummary delta_rule_summary(const DeltaRuleSummaryArgs& args);
}  // namespace original

/// Subclass this to serve delta_rule; override what the backend has.
FLA_RECURRENCE_BACKEND(DeltaRuleBackend, DeltaRule, chunk_delta_rule, fused_recurrent_delta_rule,
                       replay_delta_rule, fold_delta_rule, delta_rule_summary);

}  // namespace fla
