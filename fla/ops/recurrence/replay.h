#pragma once

#include <cstddef>
#include <cstdint>

#include "fla/ops/recurrence/arguments.h"

/// Decoding steps that read states and do not write them. replay_<op> reads a state and the ring of the
/// tokens since, computes the outputs of a few tokens more, and appends those to the ring; a ring that fills
/// up is folded into its state. A step reads a state as fused_recurrent_<op> does, and writes one only where
/// it folds. Drafts that turn out wrong are dropped by a count: nothing is brought back.
///
/// A slot of the pool has, beside its state, the places of L tokens, 8 to 32, in every ring; token t of a
/// sequence has place t % L. The rings hold k, g and b as they were given, and in f32 what has gone with k
/// (ring_u) and with b (ring_w) into the state. They need no contents to begin with. Folds and later steps
/// read them with the same options and parameters of gates.
///
/// Of sequence n the state has taken in ring_begin[n] tokens, and the ring holds those up to ring_end[n]. The
/// call's T tokens, 1 to L / 2 in each of B sequences, come behind ring_end[n] and must find room:
/// ring_end[n] - ring_begin[n] + T is at most L. Calls write neither index. The caller moves them, as
/// next_cursor() does: ring_end[n] by the number of tokens that were accepted, and ring_begin[n] to where
/// ring_end[n] was, if the call folded. That it does where the ring would have no room for a next call of T
/// tokens should all of these be accepted, ring_end[n] - ring_begin[n] + 2 T > L. fold_<op> folds every ring;
/// afterwards ring_begin[n] is ring_end[n].
///
/// Outputs and folded states are those of fused_recurrent_<op> but for the rounding of f32, whatever the
/// gates are. States in bf16 are rounded where they are folded, not at every token. A sequence has the same
/// bits in any batch.
///
/// Without state_indices sequence n has slot n. No slot is named twice. A sequence whose state_indices[n] is
/// negative is skipped: its outputs are zeros and nothing is written. Indices on the host are checked before
/// anything runs. On the device they are not read before the kernels run; there a sequence with a slot or
/// counts that are out of range is skipped, and FLA_CHECK_INDICES=1 reads and checks them first.
///
/// All else, as threads, streams, graphs, lifetimes and errors, is as recurrence.h says. With `out`, and on
/// CUDA `workspace`, given, a call allocates nothing after the first of its size on a thread.
namespace fla {

/// ring_begin and ring_end of a sequence.
struct RingCursor {
  std::int64_t begin = 0, end = 0;
};

/// What they are after a call with T tokens, of which the first `accepted` stay, on rings of L tokens.
inline RingCursor next_cursor(const RingCursor& cursor, std::int64_t T, std::int64_t accepted,
                              std::int64_t L) {
  const bool folded = cursor.end - cursor.begin + 2 * T > L;
  return {folded ? cursor.end : cursor.begin, cursor.end + accepted};
}

/// Throws InvalidArgument unless the function of the op could run this call.
template <class Args>
requires ReplayArgs<Args> || FoldArgs<Args>
void validate_arguments(const Args& args) { recurrence::validate(recurrence::replay_arguments_of(args)); }

/// Bytes of workspace with which no kernel that could take this call allocates, as for recurrence.h's calls.
template <class Args>
requires ReplayArgs<Args> || FoldArgs<Args> std::size_t workspace_size(const Args& args) {
  validate_arguments(args);
  if (args.state.device().is_cpu()) return 0;
  return recurrence::original_workspace(recurrence::replay_arguments_of(args));
}

/// `out` as it was given, or new memory.
template <ReplayArgs Args>
ReplayResult make_result(const Args& args) {
  return recurrence::make_result(recurrence::replay_arguments_of(args));
}

}  // namespace fla
