#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// Retention: heads forget at fixed rates. Per sequence and value head, with a state S of shape [K, V]
/// that starts as initial_state, or as zeros,
///
///     S <- (1 - 2^(-5 - h)) S + k_t v_t^T          h is the value head, from 0
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_RETENTION_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, FORWARD) \
  FLA_PART_TOKENS(TOKEN, RING)                                                                             \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                            \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                                   \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every retention function, under the names that flash-linear-attention gives them.
struct RetentionArgs {
  using Result = RecurrenceResult;
  using Forward = RetentionArgs;
  using Backward = struct RetentionBackwardArgs;
  using Replay = struct RetentionReplayArgs;
  using Fold = struct RetentionFoldArgs;
  using Summary = struct RetentionSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "retention",
                                    .title = "Retention",
                                    .chunk = "chunk_retention",
                                    .recurrent = "fused_recurrent_retention",
                                    .backward = "chunk_retention_backward",
                                    .replay = "replay_retention",
                                    .fold = "fold_retention",
                                    .summary = "retention_summary",
                                    .gate = GateKind::head,
                                    .rule = Rule::additive,
                                    .head_gate = HeadGate::retention};

  FLA_RECURRENCE_MEMBERS(FLA_RETENTION_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_retention_backward: the forward call's, and gradients in and out.
struct RetentionBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = RetentionArgs;
  static constexpr RecurrenceOp kOp = RetentionArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_RETENTION_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of replay_retention: a step's tokens, and states with rings.
struct RetentionReplayArgs {
  using Result = ReplayResult;
  using Forward = RetentionArgs;
  static constexpr RecurrenceOp kOp = RetentionArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_RETENTION_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_retention: states with rings, and the options of the steps.
struct RetentionFoldArgs {
  using Result = FoldResult;
  using Forward = RetentionArgs;
  static constexpr RecurrenceOp kOp = RetentionArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_RETENTION_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of retention_summary: the forward call's, and with `do` the gradients that come in.
struct RetentionSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = RetentionArgs;
  static constexpr RecurrenceOp kOp = RetentionArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_RETENTION_ARGUMENTS, FLA_DIAGONAL_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_retention, others to chunk_retention.
FLA_API RecurrenceResult retention(const RetentionArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API RecurrenceResult chunk_retention(const RetentionArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API RecurrenceResult fused_recurrent_retention(const RetentionArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_retention_backward(const RetentionBackwardArgs& args);

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_retention(const RetentionReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_retention(const RetentionFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary retention_summary(const RetentionSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_retention(const RetentionArgs& args);
FLA_API RecurrenceResult fused_recurrent_retention(const RetentionArgs& args);
FLA_API RecurrenceGradients chunk_retention_backward(const RetentionBackwardArgs& args);
FLA_API ReplayResult replay_retention(const RetentionReplayArgs& args);
FLA_API FoldResult fold_retention(const RetentionFoldArgs& args);
FLA_API RecurrenceSummary retention_summary(const RetentionSummaryArgs& args);
}  // namespace original

/// Subclass this to serve retention; override what the backend has.
FLA_RECURRENCE_BACKEND(RetentionBackend, Retention, chunk_retention, fused_recurrent_retention,
                       replay_retention, fold_retention, retention_summary);

}  // namespace fla
