#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fla/core/export.h"
#include "fla/dispatch/backend/verdict.h"
#include "fla/dispatch/call/snapshot.h"
#include "fla/dispatch/call/thread_state.h"

/// What calls count. fla/dispatch/observe/counters.h tells it.
namespace fla::dispatch {

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

  Count taken{0}, failed{0}, fell_back{0}, turned_away{0};
  std::array<Reason, kReasons> reasons;
};

// The rare ways, out of line. The first time a thread counts something it is logged, once a process.
FLA_API void count_first(std::uint32_t counter);
FLA_API void count_refusal_first(const Candidate& candidate, const Verdict& verdict);
FLA_API void count_failure(const Candidate& candidate, bool fell_back);
/// Counts a call that is skipped because the breaker is open.
FLA_API void count_open(const Candidate& candidate);

/// Counts a call that a thread has counted before; counts nothing and says no the first time.
inline bool count_again(std::uint32_t counter) {
  ThreadState& thread = thread_state;
  if (counter >= thread.cell_count) return false;
  CounterCell::Count& taken = thread.cells[counter].taken;
  const std::uint64_t before = taken.load(std::memory_order_relaxed);
  if (before == 0) return false;
  taken.store(before + 1, std::memory_order_relaxed);
  return true;
}

inline void count_taken(std::uint32_t counter) {
  if (!count_again(counter)) [[unlikely]]
    count_first(counter);
}

inline void count_refusal(const Candidate& candidate, const Verdict& verdict) {
  ThreadState& thread = thread_state;
  if (candidate.counter < thread.cell_count) [[likely]] {
    for (CounterCell::Reason& reason : thread.cells[candidate.counter].reasons) {
      const char* text = reason.text.load(std::memory_order_relaxed);
      if (text == verdict.text() && reason.line.load(std::memory_order_relaxed) == verdict.line()) {
        return CounterCell::increment(reason.count);
      }
      if (text == nullptr) break;
    }
  }
  count_refusal_first(candidate, verdict);
}

}  // namespace fla::dispatch
