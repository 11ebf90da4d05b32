#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// Kimi Delta Attention: the delta rule with a gate for every channel. Per sequence and value head, with a
/// state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- diag(exp(g_t)) S
///     S <- S + k_t (beta_t (v_t - k_t^T S))^T
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_KDA_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, FORWARD)     \
  FLA_PART_TOKENS(TOKEN, RING)                                                                           \
  TOKEN(g, required, kFloatTypes, "B T HV K", "log-decay of every channel; raw with use_gate_in_kernel") \
  RING(ring_g, required, kFloatTypes, "P L HV K", FLA_RING_G)                                            \
  FLA_PART_BETA(TOKEN, FLA_RAW_BETA)                                                                     \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                          \
  FLA_PART_NORM(FLAG)                                                                                    \
  FLA_PART_GATE_AND_SIGMOID(NUMBER, FLAG)                                                                \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                                 \
  FLA_PART_GATE_PARAMETERS(TENSOR, "HV*K | HV K")                                                        \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

using KdaResult = RecurrenceResult;

/// The arguments of every kda function, under the names that flash-linear-attention gives them:
///
///     auto [o, state] = fla::kda({.q = q, .k = k, .v = v, .g = g, .beta = beta, .output_final_state =
///     true});
struct KdaArgs {
  using Result = KdaResult;
  using Forward = KdaArgs;
  using Backward = struct KdaBackwardArgs;
  using Replay = struct KdaReplayArgs;
  using Fold = struct KdaFoldArgs;
  using Summary = struct KdaSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "kda",
                                    .title = "Kimi Delta Attention",
                                    .chunk = "chunk_kda",
                                    .recurrent = "fused_recurrent_kda",
                                    .backward = "chunk_kda_backward",
                                    .replay = "replay_kda",
                                    .fold = "fold_kda",
                                    .summary = "kda_summary",
                                    .gate = GateKind::channel,
                                    .rule = Rule::delta};

  FLA_RECURRENCE_MEMBERS(FLA_KDA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_kda_backward: the forward call's, and gradients in and out.
struct KdaBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = KdaArgs;
  static constexpr RecurrenceOp kOp = KdaArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_KDA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of replay_kda: a step's tokens, and states with rings.
struct KdaReplayArgs {
  using Result = ReplayResult;
  using Forward = KdaArgs;
  static constexpr RecurrenceOp kOp = KdaArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_KDA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_kda: states with rings, and the options of the steps.
struct KdaFoldArgs {
  using Result = FoldResult;
  using Forward = KdaArgs;
  static constexpr RecurrenceOp kOp = KdaArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_KDA_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of kda_summary: the forward call's, and with `do` the gradients that come in.
struct KdaSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = KdaArgs;
  static constexpr RecurrenceOp kOp = KdaArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_KDA_ARGUMENTS, FLA_SQUARE_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_kda, others to chunk_kda.
FLA_API KdaResult kda(const KdaArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API KdaResult chunk_kda(const KdaArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API KdaResult fused_recurrent_kda(const KdaArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_kda_backward(const KdaBackwardArgs& args);

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_kda(const KdaReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_kda(const KdaFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary kda_summary(const KdaSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API KdaResult chunk_kda(const KdaArgs& args);
FLA_API KdaResult fused_recurrent_kda(const KdaArgs& args);
FLA_API RecurrenceGradients chunk_kda_backward(const KdaBackwardArgs& args);
FLA_API ReplayResult replay_kda(const KdaReplayArgs& args);
FLA_API FoldResult fold_kda(const KdaFoldArgs& args);
FLA_API RecurrenceSummary kda_summary(const KdaSummaryArgs& args);
}  // namespace original

/// Subclass this to serve kda; override what the backend has.
FLA_RECURRENCE_BACKEND(KdaBackend, Kda, chunk_kda, fused_recurrent_kda, replay_kda, fold_kda, kda_summary);

}  // namespace fla
