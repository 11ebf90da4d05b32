#include "tools/conformance/allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

std::atomic<std::uint64_t> count{0};
std::atomic<std::size_t> least_that_fails{std::numeric_limits<std::size_t>::max()};
constinit thread_local std::uint64_t own_count = 0;

void count_one() {
  count.fetch_add(1, std::memory_order_relaxed);
  ++own_count;
}

}  // namespace

std::uint64_t fla_test::allocations() { return count.load(); }
std::uint64_t fla_test::allocations_of_this_thread() { return own_count; }

fla_test::FailingAllocations::FailingAllocations(std::size_t least) { least_that_fails.store(least); }
fla_test::FailingAllocations::~FailingAllocations() {
  least_that_fails.store(std::numeric_limits<std::size_t>::max());
}

#ifdef FLA_TEST_HAS_ALLOCATION_HOOK

#include <sanitizer/allocator_interface.h>

static const int hooked = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { count_one(); }, [](const volatile void*) {});

#else

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
  count_one();
  if (size >= least_that_fails.load(std::memory_order_relaxed)) throw std::bad_alloc();
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, size ? size : 1) !=
      0) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
// std::get_temporary_buffer uses this one.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return allocate(size, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
