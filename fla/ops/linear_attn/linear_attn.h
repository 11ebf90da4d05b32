#pragma once

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/ops/recurrence/parts.h"
#include "fla/ops/recurrence/recurrence.h"
#include "fla/ops/recurrence/replay.h"

/// Linear attention: keys and values are added, and nothing decays. Per sequence and value head, with a
/// state S of shape [K, V] that starts as initial_state, or as zeros,
///
///     S <- S + k_t v_t^T
///     o_t = scale * q_t^T S          with normalize over scale * q_t^T z + 1e-10, where z is the sum of the
///                                    call's keys of that sequence up to t
///
/// fla/ops/recurrence/recurrence.h has what holds for every op of the family: sizes, pools of states, packed
/// sequences, threads, streams and errors.
namespace fla {

#define FLA_LINEAR_ATTN_ARGUMENTS(TOKEN, STATE, TENSOR, RING, INDEX, OUTPUT, NUMBER, INTEGER, FLAG, FORWARD) \
  FLA_PART_TOKENS(TOKEN, RING)                                                                               \
  FLA_PART_STATES(STATE, NUMBER, FLAG, FORWARD)                                                              \
  FLAG(normalize, "divide o by scale * q^T z + 1e-10, z the sum of the keys so far")                         \
  FLA_PART_PACKING(INDEX, FLAG, FORWARD)                                                                     \
  FLA_PART_OUTPUTS(OUTPUT, INTEGER, FORWARD)

/// The arguments of every linear_attn function, under the names that flash-linear-attention gives them.
struct LinearAttnArgs {
  using Result = RecurrenceResult;
  using Forward = LinearAttnArgs;
  using Backward = struct LinearAttnBackwardArgs;
  using Replay = struct LinearAttnReplayArgs;
  using Fold = struct LinearAttnFoldArgs;
  using Summary = struct LinearAttnSummaryArgs;
  static constexpr RecurrenceOp kOp{.name = "linear_attn",
                                    .title = "Linear attention",
                                    .chunk = "chunk_linear_attn",
                                    .recurrent = "fused_recurrent_linear_attn",
                                    .backward = "chunk_linear_attn_backward",
                                    .replay = "replay_linear_attn",
                                    .fold = "fold_linear_attn",
                                    .summary = "linear_attn_summary",
                                    .gate = GateKind::none,
                                    .rule = Rule::additive};

  FLA_RECURRENCE_MEMBERS(FLA_LINEAR_ATTN_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of chunk_linear_attn_backward: the forward call's, and gradients in and out.
struct LinearAttnBackwardArgs {
  using Result = RecurrenceGradients;
  using Forward = LinearAttnArgs;
  static constexpr RecurrenceOp kOp = LinearAttnArgs::kOp;

  FLA_BACKWARD_MEMBERS(FLA_LINEAR_ATTN_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of replay_linear_attn: a step's tokens, and states with rings.
struct LinearAttnReplayArgs {
  using Result = ReplayResult;
  using Forward = LinearAttnArgs;
  static constexpr RecurrenceOp kOp = LinearAttnArgs::kOp;

  FLA_REPLAY_MEMBERS(FLA_LINEAR_ATTN_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of fold_linear_attn: states with rings, and the options of the steps.
struct LinearAttnFoldArgs {
  using Result = FoldResult;
  using Forward = LinearAttnArgs;
  static constexpr RecurrenceOp kOp = LinearAttnArgs::kOp;

  FLA_FOLD_MEMBERS(FLA_LINEAR_ATTN_ARGUMENTS)

  FLA_API static ArgumentTable arguments();
};

/// The arguments of linear_attn_summary: the forward call's, and with `do` the gradients that come in.
struct LinearAttnSummaryArgs {
  using Result = RecurrenceSummary;
  using Forward = LinearAttnArgs;
  static constexpr RecurrenceOp kOp = LinearAttnArgs::kOp;

  FLA_SUMMARY_MEMBERS(FLA_LINEAR_ATTN_ARGUMENTS, FLA_DIAGONAL_P)

  FLA_API static ArgumentTable arguments();
};

/// The front door: short sequences go to fused_recurrent_linear_attn, others to chunk_linear_attn.
FLA_API RecurrenceResult linear_attn(const LinearAttnArgs& args);

/// Prefill and training lengths: works on chunks of tokens.
FLA_API RecurrenceResult chunk_linear_attn(const LinearAttnArgs& args);

/// Decoding and short continuations: works token by token.
FLA_API RecurrenceResult fused_recurrent_linear_attn(const LinearAttnArgs& args);

/// The gradients of the chunked function's inputs.
FLA_API RecurrenceGradients chunk_linear_attn_backward(const LinearAttnBackwardArgs& args);

/// A decoding step that appends its tokens to rings instead of writing states (replay.h).
FLA_API ReplayResult replay_linear_attn(const LinearAttnReplayArgs& args);

/// Brings states up to the last token of their rings.
FLA_API FoldResult fold_linear_attn(const LinearAttnFoldArgs& args);

/// What the tokens do to a state, whichever it is.
FLA_API RecurrenceSummary linear_attn_summary(const LinearAttnSummaryArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API RecurrenceResult chunk_linear_attn(const LinearAttnArgs& args);
FLA_API RecurrenceResult fused_recurrent_linear_attn(const LinearAttnArgs& args);
FLA_API RecurrenceGradients chunk_linear_attn_backward(const LinearAttnBackwardArgs& args);
FLA_API ReplayResult replay_linear_attn(const LinearAttnReplayArgs& args);
FLA_API FoldResult fold_linear_attn(const LinearAttnFoldArgs& args);
FLA_API RecurrenceSummary linear_attn_summary(const LinearAttnSummaryArgs& args);
}  // namespace original

/// Subclass this to serve linear_attn; override what the backend has.
FLA_RECURRENCE_BACKEND(LinearAttnBackend, LinearAttn, chunk_linear_attn, fused_recurrent_linear_attn,
                       replay_linear_attn, fold_linear_attn, linear_attn_summary);

}  // namespace fla
