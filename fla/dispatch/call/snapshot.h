#pragma once

#include <cstdint>
#include <string>

#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/backend/verdict.h"
#include "fla/dispatch/failure/breaker.h"

namespace fla::dispatch {

/// One backend that a call may go to: available, enabled, allowed.
struct Candidate {
  Verdict (*verify)(const BaseBackend&, const void*);
  void (*run)();
  BaseBackend* backend;
  Breaker* breaker;
  std::uint32_t counter;
};

class Decision;

/// Who is asked for one function under one policy, in order. Immutable; it lives as long as somebody uses it,
/// and keeps its backends alive.
struct Snapshot {
  const Candidate* begin = nullptr;
  const Candidate* end = nullptr;
  const Decision* decision = nullptr;        ///< the config file's rules for this function; null: none
  const Snapshot* const* by_rule = nullptr;  ///< what holds when a rule does, in the rules' order
  std::uint32_t original_counter = 0;
  bool only_original = true;     ///< no candidate, no trace
  bool must_take = false;        ///< FLA_BACKEND_REQUIRE: the original kernel is no answer
  bool fall_back = false;        ///< FLA_ON_FAILURE=fallback, and no backend is required
  bool check_verifiers = false;  ///< FLA_CHECK_VERIFIERS=1
  bool traced = false;           ///< a profiler wants to know who runs
  BreakerSettings breaker;
  std::string required;      ///< the backend that must take the call
  std::string required_out;  ///< why it cannot take any, when it cannot
};

/// A thread's hold on a snapshot: it lives, and stays the one that is held, while `uses` is not 0. Only the
/// thread itself looks at it.
struct SnapshotHold {
  /// What `uses` of a hold that was made for one use comes down to when that ends.
  static constexpr std::uint32_t kEnded = std::uint32_t{1} << 31;

  const Snapshot* snapshot = nullptr;
  std::uint32_t uses = 0;
};

}  // namespace fla::dispatch
