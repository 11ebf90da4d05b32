#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fla/ops/ops.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/laid_out.h"

namespace fla::conformance {

/// Where the states of a call in a pool go.
enum class PoolWrites : std::uint8_t {
  in_place,  ///< the slots that are read
  moved,     ///< other slots of the same pool, by state_write_indices
  apart,     ///< another pool, full of poison
  nowhere,   ///< no final_state
};

struct PoolKind {
  PoolWrites writes = PoolWrites::in_place;
  /// Every third sequence is skipped, and with PoolWrites::moved every fourth leaves no state.
  bool skips = true;
  DType index_dtype = DType::i64;
  std::uint64_t seed = 1;
};

/// A call whose states lie in a pool, in slots that indices name, made from one with an initial_state and no
/// indices. Slots that no sequence reads are poison. Outputs are given.
template <RecurrenceArgs Args>
class PooledCall {
 public:
  PooledCall(const Args& plain, const PoolKind& kind);

  const Args& args() const { return args_; }

  /// What is wrong after a run with the result, and with the slots that nobody was to write; empty when
  /// nothing is. `plain` is the reference of the call that this one was made from.
  std::string wrong(const RecurrenceResult& result, const cases::Reference& plain) const;

 private:
  std::vector<StateSlots> slots_;  // of every sequence; negative as in recurrence.h
  LaidOut out_, pool_, other_pool_, reads_, writes_;
  Args args_;
  std::vector<std::byte> before_;  // final_state's
};

}  // namespace fla::conformance
