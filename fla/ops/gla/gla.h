#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// Gated linear attention: a gate for every channel, and keys and values are added. Per sequence and value
/// head, with a state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- diag(exp(g_t)) S + k_t v_t^T
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_GLA_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, FORWARD) \
  FLA_PART_TOKENS(TOKEN, RING)                                                                       \
  TOKEN(g, required, kFloatTypes, "B T HV K", "log-decay of every channel")                          \
  RING(ring_g, required, kFloatTypes, "P L HV K", FLA_RING_G)                                        \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                      \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                             \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every gla function, under the names that flash-linear-attention gives them.
struct GlaArgs {
  using Result = RecurrenceResult;
  using Forward = GlaArgs;
  using Backward = struct GlaBackwardArgs;
  using Replay = struct GlaReplayArgs;
  using Fold = struct GlaFoldArgs;
  using Summary = struct GlaSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "gla",
                                    .title = "Gated linear attention",
                                    .chunk = "chunk_gla",
                                    .recurrent = "fused_recurrent_gla",
                                    .backward = "chunk_gla_backward",
                                    .replay = "replay_gla",
                                    .fold = "fold_gla",
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

/// The arguments of replay_gla: a step's tokens, and states with rings.
struct GlaReplayArgs {
  using Result = ReplayResult;
  using Forward = GlaArgs;
  static constexpr RecurrenceOp kOp = GlaArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_GLA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_gla: states with rings, and the options of the steps.
struct GlaFoldArgs {
  using Result = FoldResult;
  using Forward = GlaArgs;
  static constexpr RecurrenceOp kOp = GlaArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_GLA_ARGUMENTS)

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

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_gla(const GlaReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_gla(const GlaFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary gla_summary(const GlaSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_gla(const GlaArgs& args);
FLA_API RecurrenceResult fused_recurrent_gla(const GlaArgs& args);
FLA_API RecurrenceGradients chunk_gla_backward(const GlaBackwardArgs& args);
FLA_API ReplayResult replay_gla(const GlaReplayArgs& args);
FLA_API FoldResult fold_gla(const GlaFoldArgs& args);
FLA_API RecurrenceSummary gla_summary(const GlaSummaryArgs& args);
}  // namespace original

/// Subclass this to serve gla; override what the backend has.
FLA_RECURRENCE_BACKEND(GlaBackend, Gla, chunk_gla, fused_recurrent_gla, replay_gla, fold_gla, gla_summary);

}  // namespace fla
