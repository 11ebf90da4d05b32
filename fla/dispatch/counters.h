#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "fla/core/export.h"
#include "fla/dispatch/verdict.h"

namespace fla {

/// What happened to the calls of one function at one backend; "original" is the original kernel.
struct BackendCounters {
  std::string op, function, backend;
  std::uint64_t taken = 0, failed = 0, fell_back = 0;
  struct Refusal {
    std::string reason;  ///< the wording, values left out
    std::string place;   ///< file:line of the verifier that raised it
    std::uint64_t count = 0;
  };
  std::vector<Refusal> refused;
};

/// Everything counted so far, by all threads, in the order of ops, functions and priorities. Counters only
/// grow.
FLA_API std::vector<BackendCounters> counters();

namespace dispatch {

/// The counters of one pair of function and backend on one thread. Only that thread writes, with plain loads
/// and stores; the atomics are there for readers on other threads.
struct CounterCell {
  using Count = std::atomic<std::uint64_t>;
  static void increment(Count& count) {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  struct Reason {
    std::atomic<const char*> text{nullptr};
    std::atomic<const char*> file{nullptr};
    std::atomic<unsigned> line{0};
    Count count{0};
  };
  static constexpr std::size_t kReasons =
      16;  // a verifier with more branches shares the last place among the rest

  Count taken{0}, failed{0}, fell_back{0};
  std::array<Reason, kReasons> reasons;
};

}  // namespace dispatch
}  // namespace fla
