#pragma once

#include <cstddef>
#include <cstdint>

// ThreadSanitizer has operators of its own, which cannot be replaced, and tells of every allocation.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLA_TEST_HAS_ALLOCATION_HOOK
#endif
#endif

namespace fla_test {

/// How many times this program, the library included, has called operator new so far. A program that uses it
/// has the operators replaced (link fla_allocations).
std::uint64_t allocations();

/// The same of the calling thread alone.
std::uint64_t allocations_of_this_thread();

/// While it lives, operator new throws std::bad_alloc for `least` bytes and more, on every thread. Without
/// effect where FLA_TEST_HAS_ALLOCATION_HOOK is defined.
class FailingAllocations {
 public:
  explicit FailingAllocations(std::size_t least);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
};

}  // namespace fla_test
