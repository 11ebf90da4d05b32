#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "fla/core/export.h"
#include "fla/core/subscription.h"

namespace fla {

/// Where a backend's circuit breaker stands for one function. Closed: calls go to the backend. Open: it
/// failed too often, and calls skip it. Half-open: the cool-down is over, one call tries it, the others skip
/// it until that one has ended.
enum class BreakerState : std::uint8_t { closed, open, half_open };

/// "closed", "open" or "half_open".
constexpr std::string_view name_of(BreakerState state) {
  switch (state) {
    case BreakerState::closed: return "closed";
    case BreakerState::open: return "open";
    case BreakerState::half_open: return "half_open";
  }
  return "?";
}

struct BreakerEvent {
  std::string op, function, backend;
  BreakerState from{}, to{};
  std::string reason;        ///< such as "5 failures within 10 s, last: out of workspace"
  std::uint64_t number = 0;  ///< 1, 2, …: the changes of this breaker in their order; threads may tell late
};

/// Tells a program of each change of a breaker, after it happened, on the thread that caused it, with no lock
/// of the library held: the listener may call the library. It must not throw; one that does is logged.
[[nodiscard]] FLA_API Subscription on_breaker_change(std::function<void(const BreakerEvent&)> listener);

/// Closes every breaker and forgets the failures, those of lost devices too.
FLA_API void reset_breakers();

namespace dispatch {

struct BreakerSettings {
  int threshold = 5;          ///< so many failures open it; 0: nothing does but a lost device
  int window_ms = 10'000;     ///< … when the first and the last of them lie no further apart
  int cool_down_ms = 30'000;  ///< from opening to the next trial
};

/// The circuit breaker of one function at one backend. Thread-safe.
class FLA_API Breaker {
 public:
  /// A call that was let in to see whether the backend works again; 0 is no trial.
  using Trial = std::uint64_t;

  Breaker(std::string_view op, std::string_view function, std::string_view backend);
  Breaker(const Breaker&) = delete;
  Breaker& operator=(const Breaker&) = delete;

  /// All that a call asks while nothing is wrong.
  bool closed() const { return state_.load(std::memory_order_relaxed) == BreakerState::closed; }

  /// For a call that found it not closed: a trial, or 0 when the call must skip this backend. One trial
  /// runs at a time, and whoever gets one ends it by succeeded, abandoned or failed. Allocates nothing when
  /// it says 0. When the breaker was closed in the meantime the answer is a trial, too: its end changes
  /// nothing then.
  Trial admits_trial();

  /// Whether a call would go to the backend now, be it as a trial. Changes nothing.
  bool admits() const;

  /// The trial ended well: the breaker closes and the failures are forgotten.
  void succeeded(Trial trial);

  /// The trial ended without an answer about the backend (a wrong argument, say): the next call is a trial.
  void abandoned(Trial trial);

  /// A call failed. Counts, and opens the breaker when the settings say so; a failed trial opens it again for
  /// a whole cool-down, or closes it when the threshold is 0 by now. Calls that began before it opened change
  /// nothing when they fail later. `for_good` (the device is lost): opens it until reset_breakers(), whatever
  /// the settings.
  void failed(const BreakerSettings& settings, std::string_view why, bool for_good = false, Trial trial = 0);

  struct Status {
    BreakerState state;
    int failures;        ///< those of the last window, as they stood at the last failure
    std::string reason;  ///< empty when closed; otherwise why, and when it is tried again
  };
  Status status() const;
  BreakerState state() const { return state_.load(std::memory_order_relaxed); }

  /// Closes it and forgets the failures.
  void reset();

  const std::string& op() const { return op_; }
  const std::string& function() const { return function_; }
  const std::string& backend() const { return backend_; }

 private:
  BreakerEvent change(BreakerState to, std::string reason);
  bool is_tried() const;

  std::atomic<BreakerState> state_{BreakerState::closed};
  std::atomic<std::int64_t> tried_again_at_{0};  // of an open one
  std::atomic<Trial> running_{0};                // the trial that is under way, and in which process
  std::atomic<int> running_in_{0};
  // The rest under the one mutex of all breakers.
  Trial last_trial_ = 0;
  std::deque<std::int64_t> failures_;  // when they happened, the oldest first
  std::string why_;                    // why it is not closed
  std::uint64_t changes_ = 0;
  std::string op_, function_, backend_;
};

/// Makes a breaker that counters() and reset_breakers() know while it lives; of several with one name,
/// counters show the newest.
FLA_API std::shared_ptr<Breaker> new_breaker(std::string_view op, std::string_view function,
                                             std::string_view backend);

/// The newest of that name, or null when that is gone or there never was one.
FLA_API std::shared_ptr<const Breaker> find_breaker(std::string_view op, std::string_view function,
                                                    std::string_view backend);

/// For tests: a clock of nanoseconds for all breakers. Null goes back to the steady clock.
FLA_API void set_breaker_clock(std::int64_t (*now)());

}  // namespace dispatch
}  // namespace fla
