#pragma once

#include <cstddef>

#include "tests/core/sanitized.h"

#ifdef FLA_TEST_SANITIZED
// As sanitizer/allocator_interface.h has it, which gcc comes without.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#else
#include <malloc.h>
#endif

namespace fla_test {

/// The bytes that are allocated and not freed, in the whole process.
inline std::size_t live_memory() {
#ifdef FLA_TEST_SANITIZED
  return __sanitizer_get_current_allocated_bytes();
#else
  return ::mallinfo2().uordblks;
#endif
}

}  // namespace fla_test
