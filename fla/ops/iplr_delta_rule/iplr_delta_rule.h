#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// The delta rule with the identity and a low-rank part: dplr_delta_rule without a decay. Per sequence and
/// value head, with a state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- S + b_t (a_t^T S)^T + k_t v_t^T
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_IPLR_DELTA_RULE_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, \
                                      FORWARD)                                                          \
  FLA_PART_TOKENS(TOKEN, RING)                                                                          \
  TOKEN(a, required, kFloatTypes, "B T H K", "what the low-rank part reads of the state")               \
  TOKEN(b, required, kFloatTypes, "B T H K", "where it writes that")                                    \
  FLA_PART_RING_OF_PAIR(RING)                                                                           \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                         \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                                \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every iplr_delta_rule function, under the names that flash-linear-attention gives them.
struct IplrDeltaRuleArgs {
  using Result = RecurrenceResult;
  using Forward = IplrDeltaRuleArgs;
  using Backward = struct IplrDeltaRuleBackwardArgs;
  using Replay = struct IplrDeltaRuleReplayArgs;
  using Fold = struct IplrDeltaRuleFoldArgs;
  using Summary = struct IplrDeltaRuleSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "iplr_delta_rule",
                                    .title = "The delta rule with the identity and a low-rank part",
                                    .chunk = "chunk_iplr_delta_rule",
                                    .recurrent = "fused_recurrent_iplr_delta_rule",
                                    .backward = "chunk_iplr_delta_rule_backward",
                                    .replay = "replay_iplr_delta_rule",
                                    .fold = "fold_iplr_delta_rule",
                                    .summary = "iplr_delta_rule_summary",
                                    .gate = GateKind::none,
                                    .rule = Rule::low_rank};

  FLA_RECURRENCE_MEMBERS(FLA_IPLR_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_iplr_delta_rule_backward: the forward call's, and gradients in and out.
struct IplrDeltaRuleBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = IplrDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = IplrDeltaRuleArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_IPLR_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of replay_iplr_delta_rule: a step's tokens, and states with rings.
struct IplrDeltaRuleReplayArgs {
  using Result = ReplayResult;
  using Forward = IplrDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = IplrDeltaRuleArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_IPLR_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_iplr_delta_rule: states with rings, and the options of the steps.
struct IplrDeltaRuleFoldArgs {
  using Result = FoldResult;
  using Forward = IplrDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = IplrDeltaRuleArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_IPLR_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of iplr_delta_rule_summary: the forward call's, and with `do` the gradients that come in.
struct IplrDeltaRuleSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = IplrDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = IplrDeltaRuleArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_IPLR_DELTA_RULE_ARGUMENTS, FLA_SQUARE_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_iplr_delta_rule, others to chunk_iplr_delta_rule.
FLA_API RecurrenceResult iplr_delta_rule(const IplrDeltaRuleArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API RecurrenceResult chunk_iplr_delta_rule(const IplrDeltaRuleArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API RecurrenceResult fused_recurrent_iplr_delta_rule(const IplrDeltaRuleArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_iplr_delta_rule_backward(const IplrDeltaRuleBackwardArgs& args);

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_iplr_delta_rule(const IplrDeltaRuleReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_iplr_delta_rule(const IplrDeltaRuleFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary iplr_delta_rule_summary(const IplrDeltaRuleSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_iplr_delta_rule(const IplrDeltaRuleArgs& args);
FLA_API RecurrenceResult fused_recurrent_iplr_delta_rule(const IplrDeltaRuleArgs& args);
FLA_API RecurrenceGradients chunk_iplr_delta_rule_backward(const IplrDeltaRuleBackwardArgs& args);
FLA_API ReplayResult replay_iplr_delta_rule(const IplrDeltaRuleReplayArgs& args);
FLA_API FoldResult fold_iplr_delta_rule(const IplrDeltaRuleFoldArgs& args);
FLA_API RecurrenceSummary iplr_delta_rule_summary(const IplrDeltaRuleSummaryArgs& args);
}  // namespace original

/// Subclass this to serve iplr_delta_rule; override what the backend has.
FLA_RECURRENCE_BACKEND(IplrDeltaRuleBackend, IplrDeltaRule, chunk_iplr_delta_rule,
                       fused_recurrent_iplr_delta_rule, replay_iplr_delta_rule, fold_iplr_delta_rule,
                       iplr_delta_rule_summary);

}  // namespace fla
