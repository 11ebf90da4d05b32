#include "tests/core/allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLA_TEST_HAS_ALLOCATION_HOOK
#endif
#endif

namespace {

std::atomic<std::uint64_t> count{0};
constinit thread_local std::uint64_t own_count = 0;

void count_one() {
  count.fetch_add(1, std::memory_order_relaxed);
  ++own_count;
}

}  // namespace

std::uint64_t fla_test::allocations() { return count.load(); }
std::uint64_t fla_test::allocations_of_this_thread() { return own_count; }

#ifdef FLA_TEST_HAS_ALLOCATION_HOOK

// ThreadSanitizer has operators of its own, which cannot be replaced, and tells of every allocation.
#include <sanitizer/allocator_interface.h>

static const int hooked = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { count_one(); }, [](const volatile void*) {});

#else

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
  count_one();
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
