#pragma once

#include "fla/core/export.h"
#include "fla/distributed/context.h"
#include "fla/ops/ops.h"

/// The family's ops over sequences that are on several ranks. What tokens do to a state is an affine map,
/// S_out = P S_in + R, whatever the state is (<op>_summary). So ranks exchange one summary of each piece of a
/// sequence that goes on elsewhere, [HV, K, V + K] numbers, for additive ops [HV, K, V + 1], whatever its
/// length; each applies those of the pieces before its own (`merge`), and the rest is an ordinary call.
///
/// Tensors are this rank's: B is 1, T is context.tokens(), and the N sequences are those of
/// context.cu_seqlens(), one a piece. The arguments have no cu_seqlens and no state_indices. initial_state is
/// that of every piece, and read where the piece begins its sequence; final_state is the state after every
/// piece, the sequence's where the piece ends it. States are f32. linear_attn's normalize is refused: its
/// sums go beyond the state. A workspace is that of the call with context.cu_seqlens() and an initial_state.
/// Results have the same bits for any placement of the same cuts.
///
/// Calls are collective (context.h). A rank whose arguments are wrong throws before it exchanges anything;
/// the others throw BackendError, as they do when a rank dies. Tensors may be on a GPU: summaries go through
/// the host where the transport's memory is there, and then the call waits for the stream.
///
/// Heads over ranks (tensor parallel) need no exchange: every head has a state of its own. To have both,
/// split heads over the ranks of one communicator and sequences over those of another.
namespace fla::distributed {

struct Result {
  Tensor o;              ///< [1, T, HV, V]
  Tensor final_state;    ///< [N, HV, K, V]; empty unless it was asked for
  Tensor initial_state;  ///< [N, HV, K, V]: what every piece started from, for the backward function; empty
                         ///< where all of them started from zeros
};

/// chunk_<op> and chunk_<op>_backward. A backward call takes the initial_state that the forward call
/// returned. dht is the gradient of the final states, read where a piece ends its sequence; dinitial_state is
/// that of every piece. The gradients of A_log, dt_bias and g_gamma are sums over this rank's tokens.
#define FLA_OP(NAME, ARGS)                                         \
  FLA_API Result chunk_##NAME(Context& context, const ARGS& args); \
  FLA_API RecurrenceGradients chunk_##NAME##_backward(Context& context, const ARGS::Backward& args);
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

/// The convolution before a recurrence: ranks exchange the last W - 1 inputs of every piece that goes on
/// elsewhere. Arguments and results as above, states [N, D, W - 1].
FLA_API ShortConvResult short_conv(Context& context, const ShortConvArgs& args);

}  // namespace fla::distributed
