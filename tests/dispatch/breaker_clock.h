#pragma once

#include <atomic>
#include <cstdint>

#include "fla/dispatch/failure/breaker.h"

namespace fla_test {

/// For a scope, the breakers' clock stands still and moves only when told to.
class BreakerClock {
 public:
  BreakerClock() { fla::dispatch::set_breaker_clock(&BreakerClock::now); }
  ~BreakerClock() { fla::dispatch::set_breaker_clock(nullptr); }
  BreakerClock(const BreakerClock&) = delete;
  BreakerClock& operator=(const BreakerClock&) = delete;

  static std::int64_t now() { return nanoseconds_.load(); }
  static std::int64_t now_ms() { return now() / 1'000'000; }
  static void advance_ms(std::int64_t milliseconds) { advance_ns(milliseconds * 1'000'000); }
  static void advance_ns(std::int64_t nanoseconds) { nanoseconds_ += nanoseconds; }

 private:
  static inline std::atomic<std::int64_t> nanoseconds_{1'000'000'000};
};

}  // namespace fla_test
