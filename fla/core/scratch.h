#pragma once

#include <cstddef>

#include "fla/core/export.h"

namespace fla {

/// Memory of the calling thread's own, 64-byte aligned, for `count` floats; what it holds is not defined. It
/// is kept for the thread's life and grows when more is asked for, so that a kernel allocates only the first
/// time. The next call on the same thread gives the same memory.
FLA_API float* thread_scratch(std::size_t count);

}  // namespace fla
