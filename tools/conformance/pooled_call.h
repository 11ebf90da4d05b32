#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fla/ops/kda/kda.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/laid_out.h"

namespace fla::conformance {

/// A call whose states lie in a pool, in slots that indices name, made from one with an initial_state and no
/// indices. Slots that no sequence reads are poison. Outputs are given.
class PooledCall {
 public:
  enum class Writes : std::uint8_t {
    in_place,  ///< the slots that are read
    moved,     ///< other slots of the same pool, by state_write_indices
    apart,     ///< another pool, full of poison
    nowhere,   ///< no final_state
  };
  struct Kind {
    Writes writes = Writes::in_place;
    /// Every third sequence is skipped, and with Writes::moved every fourth leaves no state.
    bool skips = true;
    DType index_dtype = DType::i64;
    std::uint64_t seed = 1;
  };
  PooledCall(const KdaArgs& plain, const Kind& kind);

  const KdaArgs& args() const { return args_; }

  /// What is wrong after a run with the result, and with the slots that nobody was to write; empty when
  /// nothing is. `plain` is the reference of the call that this one was made from.
  std::string wrong(const KdaResult& result, const cases::Reference& plain) const;

 private:
  std::vector<StateSlots> slots_;  // of every sequence; negative as in kda.h
  LaidOut out_, pool_, other_pool_, reads_, writes_;
  KdaArgs args_;
  std::vector<std::byte> before_;  // final_state's
};

}  // namespace fla::conformance
