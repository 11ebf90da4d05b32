#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// Gated linear attention with one gate a token and value head, as in Mamba-2, or one a head. Per sequence
/// and value head, with a state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- exp(g_t) S + k_t v_t^T          or exp(g_gamma) S, the same for every token
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_SIMPLE_GLA_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, FORWARD) \
  FLA_PART_TOKENS(TOKEN, RING)                                                                              \
  TOKEN(g, either, kFloatTypes, "B T HV", "log-decay")                                                      \
  RING(ring_g, optional, kFloatTypes, "P L HV", FLA_RING_G)                                                 \
  TENSOR(g_gamma, either, kFloatTypes, "HV", "log-decay of a head, the same for every token")               \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                             \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                                    \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every simple_gla function, under the names that flash-linear-attention gives them.
struct SimpleGlaArgs {
  using Result = RecurrenceResult;
  using Forward = SimpleGlaArgs;
  using Backward = struct SimpleGlaBackwardArgs;
  using Replay = struct SimpleGlaReplayArgs;
  using Fold = struct SimpleGlaFoldArgs;
  using Summary = struct SimpleGlaSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "simple_gla",
                                    .title = "Gated linear attention with one gate a token",
                                    .chunk = "chunk_simple_gla",
                                    .recurrent = "fused_recurrent_simple_gla",
                                    .backward = "chunk_simple_gla_backward",
                                    .replay = "replay_simple_gla",
                                    .fold = "fold_simple_gla",
                                    .summary = "simple_gla_summary",
                                    .gate = GateKind::token,
                                    .rule = Rule::additive};

  FLA_RECURRENCE_MEMBERS(FLA_SIMPLE_GLA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_simple_gla_backward: the forward call's, and gradients in and out.
struct SimpleGlaBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = SimpleGlaArgs;
  static constexpr RecurrenceOp kOp = SimpleGlaArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_SIMPLE_GLA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of replay_simple_gla: a step's tokens, and states with rings.
struct SimpleGlaReplayArgs {
  using Result = ReplayResult;
  using Forward = SimpleGlaArgs;
  static constexpr RecurrenceOp kOp = SimpleGlaArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_SIMPLE_GLA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_simple_gla: states with rings, and the options of the steps.
struct SimpleGlaFoldArgs {
  using Result = FoldResult;
  using Forward = SimpleGlaArgs;
  static constexpr RecurrenceOp kOp = SimpleGlaArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_SIMPLE_GLA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of simple_gla_summary: the forward call's, and with `do` the gradients that come in.
struct SimpleGlaSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = SimpleGlaArgs;
  static constexpr RecurrenceOp kOp = SimpleGlaArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_SIMPLE_GLA_ARGUMENTS, FLA_DIAGONAL_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_simple_gla, others to chunk_simple_gla.
FLA_API RecurrenceResult simple_gla(const SimpleGlaArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API RecurrenceResult chunk_simple_gla(const SimpleGlaArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API RecurrenceResult fused_recurrent_simple_gla(const SimpleGlaArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_simple_gla_backward(const SimpleGlaBackwardArgs& args);

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_simple_gla(const SimpleGlaReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_simple_gla(const SimpleGlaFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary simple_gla_summary(const SimpleGlaSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_simple_gla(const SimpleGlaArgs& args);
FLA_API RecurrenceResult fused_recurrent_simple_gla(const SimpleGlaArgs& args);
FLA_API RecurrenceGradients chunk_simple_gla_backward(const SimpleGlaBackwardArgs& args);
FLA_API ReplayResult replay_simple_gla(const SimpleGlaReplayArgs& args);
FLA_API FoldResult fold_simple_gla(const SimpleGlaFoldArgs& args);
FLA_API RecurrenceSummary simple_gla_summary(const SimpleGlaSummaryArgs& args);
}  // namespace original

/// Subclass this to serve simple_gla; override what the backend has.
FLA_RECURRENCE_BACKEND(SimpleGlaBackend, SimpleGla, chunk_simple_gla, fused_recurrent_simple_gla,
                       replay_simple_gla, fold_simple_gla, simple_gla_summary);

}  // namespace fla
