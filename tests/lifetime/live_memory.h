#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLA_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FLA_TEST_SANITIZED
#endif
#endif

#ifdef FLA_TEST_SANITIZED
// As sanitizer/allocator_interface.h has it, which gcc comes without.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#else
#include <malloc.h>
#endif

namespace fla_test {

#ifdef FLA_TEST_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// The bytes that are allocated and not freed, in the whole process.
inline std::size_t live_memory() {
#ifdef FLA_TEST_SANITIZED
  return __sanitizer_get_current_allocated_bytes();
#else
  return ::mallinfo2().uordblks;
#endif
}

}  // namespace fla_test
