#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// The delta rule with a diagonal and a low-rank part that are independent of each other, as in RWKV-7.
/// Per sequence and value head, with a state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- diag(exp(g_t)) S + b_t (a_t^T S)^T + k_t v_t^T          a_t^T S of the state before it decays
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_DPLR_DELTA_RULE_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, \
                                      FORWARD)                                                          \
  FLA_PART_TOKENS(TOKEN, RING)                                                                          \
  TOKEN(a, required, kFloatTypes, "B T H K", "what the low-rank part reads of the state")               \
  TOKEN(b, required, kFloatTypes, "B T H K", "where it writes that")                                    \
  FLA_PART_RING_OF_PAIR(RING)                                                                           \
  TOKEN(g, required, kFloatTypes, "B T HV K", "log-decay of every channel")                             \
  RING(ring_g, required, kFloatTypes, "P L HV K", FLA_RING_G)                                           \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                         \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                                \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every dplr_delta_rule function, under the names that flash-linear-attention gives them.
struct DplrDeltaRuleArgs {
  using Result = RecurrenceResult;
  using Forward = DplrDeltaRuleArgs;
  using Backward = struct DplrDeltaRuleBackwardArgs;
  using Replay = struct DplrDeltaRuleReplayArgs;
  using Fold = struct DplrDeltaRuleFoldArgs;
  using Summary = struct DplrDeltaRuleSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "dplr_delta_rule",
                                    .title = "The delta rule with a diagonal and a low-rank part",
                                    .chunk = "chunk_dplr_delta_rule",
                                    .recurrent = "fused_recurrent_dplr_delta_rule",
                                    .backward = "chunk_dplr_delta_rule_backward",
                                    .replay = "replay_dplr_delta_rule",
                                    .fold = "fold_dplr_delta_rule",
                                    .summary = "dplr_delta_rule_summary",
                                    .gate = GateKind::channel,
                                    .rule = Rule::low_rank};

  FLA_RECURRENCE_MEMBERS(FLA_DPLR_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_dplr_delta_rule_backward: the forward call's, and gradients in and out.
struct DplrDeltaRuleBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = DplrDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = DplrDeltaRuleArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_DPLR_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of replay_dplr_delta_rule: a step's tokens, and states with rings.
struct DplrDeltaRuleReplayArgs {
  using Result = ReplayResult;
  using Forward = DplrDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = DplrDeltaRuleArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_DPLR_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_dplr_delta_rule: states with rings, and the options of the steps.
struct DplrDeltaRuleFoldArgs {
  using Result = FoldResult;
  using Forward = DplrDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = DplrDeltaRuleArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_DPLR_DELTA_RULE_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of dplr_delta_rule_summary: the forward call's, and with `do` the gradients that come in.
struct DplrDeltaRuleSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = DplrDeltaRuleArgs;
  static constexpr RecurrenceOp kOp = DplrDeltaRuleArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_DPLR_DELTA_RULE_ARGUMENTS, FLA_SQUARE_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_dplr_delta_rule, others to chunk_dplr_delta_rule.
FLA_API RecurrenceResult dplr_delta_rule(const DplrDeltaRuleArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API RecurrenceResult chunk_dplr_delta_rule(const DplrDeltaRuleArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API RecurrenceResult fused_recurrent_dplr_delta_rule(const DplrDeltaRuleArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_dplr_delta_rule_backward(const DplrDeltaRuleBackwardArgs& args);

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_dplr_delta_rule(const DplrDeltaRuleReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_dplr_delta_rule(const DplrDeltaRuleFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary dplr_delta_rule_summary(const DplrDeltaRuleSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_dplr_delta_rule(const DplrDeltaRuleArgs& args);
FLA_API RecurrenceResult fused_recurrent_dplr_delta_rule(const DplrDeltaRuleArgs& args);
FLA_API RecurrenceGradients chunk_dplr_delta_rule_backward(const DplrDeltaRuleBackwardArgs& args);
FLA_API ReplayResult replay_dplr_delta_rule(const DplrDeltaRuleReplayArgs& args);
FLA_API FoldResult fold_dplr_delta_rule(const DplrDeltaRuleFoldArgs& args);
FLA_API RecurrenceSummary dplr_delta_rule_summary(const DplrDeltaRuleSummaryArgs& args);
}  // namespace original

/// Subclass this to serve dplr_delta_rule; override what the backend has.
FLA_RECURRENCE_BACKEND(DplrDeltaRuleBackend, DplrDeltaRule, chunk_dplr_delta_rule,
                       fused_recurrent_dplr_delta_rule, replay_dplr_delta_rule, fold_dplr_delta_rule,
                       dplr_delta_rule_summary);

}  // namespace fla
