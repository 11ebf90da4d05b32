#pragma once

#include "fla/ops/recurrence/call.h"

namespace fla {

/// A valid call of replay_<op> or, without tokens, of fold_<op>; replay.h has the contract.
struct ReplayCall {
  RecurrenceCall call{};  ///< the tokens; initial_state and final_state are the pool
  LowRankPair pair{};
  /// The rings as sequences, one a slot, of an additive op: k and g as they were given, v what has gone with
  /// k into the state.
  RecurrenceCall ring{};
  common::Rows ring_b{}, ring_w{};  ///< with Rule::low_rank: b, and what has gone with b
  common::Indices begin{}, end{};
  bool folds = false;  ///< every ring, whatever room it has
};

/// What a sequence's slot holds.
struct Ring {
  std::int64_t slot;  ///< negative: the sequence is skipped
  int first = 0;      ///< the place of the oldest token
  int count = 0;      ///< tokens that are not in the state
  int size = 1;
  bool fold = false;  ///< the state is written, with all of those in it

  /// That of token i, the oldest one being 0; those that are appended come behind.
  FLA_HOST_DEVICE int place(int i) const {
    const int at = first + i;
    return at < size ? at : at - size;
  }
};

/// A ring with room for this call's tokens but not for as many after them is folded: what is appended then
/// lies in none of the places that are read.
FLA_HOST_DEVICE Ring ring_of(const ReplayCall& replay, std::int64_t n) {
  const std::int64_t slot = common::slots_of(replay.call, n).read, begin = replay.begin[n],
                     end = replay.end[n], size = replay.ring.T, tokens = replay.call.T;
  if (slot < 0 || begin < 0 || end < begin || end - begin > size - tokens) return {.slot = -1};
  return {.slot = slot,
          .first = static_cast<int>(begin % size),
          .count = static_cast<int>(end - begin),
          .size = static_cast<int>(size),
          .fold = replay.folds || end - begin + 2 * tokens > size};
}

}  // namespace fla
