#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// Lightning attention: heads forget at rates that depend on the layer. Per sequence and value head, with a
/// state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- exp(-8 h / HV * (1 - layer_idx / num_layers)) S + k_t v_t^T          h is the value head, from 0
///     o_t = scale * q_t^T S
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_LIGHTNING_ATTN_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, \
                                     FORWARD)                                                          \
  FLA_PART_TOKENS(TOKEN, RING)                                                                         \
  INTEGER(layer_idx, "which layer it is, from 0 to num_layers - 1")                                    \
  INTEGER(num_layers, "how many layers there are")                                                     \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                        \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                               \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every lightning_attn function, under the names that flash-linear-attention gives them.
struct LightningAttnArgs {
  using Result = RecurrenceResult;
  using Forward = LightningAttnArgs;
  using Backward = struct LightningAttnBackwardArgs;
  using Replay = struct LightningAttnReplayArgs;
  using Fold = struct LightningAttnFoldArgs;
  using Summary = struct LightningAttnSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "lightning_attn",
                                    .title = "Lightning attention",
                                    .chunk = "chunk_lightning_attn",
                                    .recurrent = "fused_recurrent_lightning_attn",
                                    .backward = "chunk_lightning_attn_backward",
                                    .replay = "replay_lightning_attn",
                                    .fold = "fold_lightning_attn",
                                    .summary = "lightning_attn_summary",
                                    .gate = GateKind::head,
                                    .rule = Rule::additive,
                                    .head_gate = HeadGate::slopes};

  FLA_RECURRENCE_MEMBERS(FLA_LIGHTNING_ATTN_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_lightning_attn_backward: the forward call's, and gradients in and out.
struct LightningAttnBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = LightningAttnArgs;
  static constexpr RecurrenceOp kOp = LightningAttnArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_LIGHTNING_ATTN_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of replay_lightning_attn: a step's tokens, and states with rings.
struct LightningAttnReplayArgs {
  using Result = ReplayResult;
  using Forward = LightningAttnArgs;
  static constexpr RecurrenceOp kOp = LightningAttnArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_LIGHTNING_ATTN_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_lightning_attn: states with rings, and the options of the steps.
struct LightningAttnFoldArgs {
  using Result = FoldResult;
  using Forward = LightningAttnArgs;
  static constexpr RecurrenceOp kOp = LightningAttnArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_LIGHTNING_ATTN_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of lightning_attn_summary: the forward call's, and with `do` the gradients that come in.
struct LightningAttnSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = LightningAttnArgs;
  static constexpr RecurrenceOp kOp = LightningAttnArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_LIGHTNING_ATTN_ARGUMENTS, FLA_DIAGONAL_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_lightning_attn, others to chunk_lightning_attn.
FLA_API RecurrenceResult lightning_attn(const LightningAttnArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API RecurrenceResult chunk_lightning_attn(const LightningAttnArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API RecurrenceResult fused_recurrent_lightning_attn(const LightningAttnArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_lightning_attn_backward(const LightningAttnBackwardArgs& args);

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_lightning_attn(const LightningAttnReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_lightning_attn(const LightningAttnFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary lightning_attn_summary(const LightningAttnSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_lightning_attn(const LightningAttnArgs& args);
FLA_API RecurrenceResult fused_recurrent_lightning_attn(const LightningAttnArgs& args);
FLA_API RecurrenceGradients chunk_lightning_attn_backward(const LightningAttnBackwardArgs& args);
FLA_API ReplayResult replay_lightning_attn(const LightningAttnReplayArgs& args);
FLA_API FoldResult fold_lightning_attn(const LightningAttnFoldArgs& args);
FLA_API RecurrenceSummary lightning_attn_summary(const LightningAttnSummaryArgs& args);
}  // namespace original

/// Subclass this to serve lightning_attn; override what the backend has.
FLA_RECURRENCE_BACKEND(LightningAttnBackend, LightningAttn, chunk_lightning_attn,
                       fused_recurrent_lightning_attn, replay_lightning_attn, fold_lightning_attn,
                       lightning_attn_summary);

}  // namespace fla
