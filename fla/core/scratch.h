#pragma once

#include <cstddef>

#include "fla/core/export.h"

namespace fla {

/// Memory of the calling thread's own, 64-byte aligned, for `count` floats; what it holds is not defined. It
/// is kept for the thread's life and grows when more is asked for, so that a kernel allocates only the first
/// time. The next call on the same thread gives the same memory.
FLA_API float* thread_scratch(std::size_t count);

/// The same kind of memory for a kernel that runs other code in between, a stage for example: it is the
/// object's alone until the object goes. Objects go in reverse order, on the thread that made them.
class FLA_API HeldScratch {
 public:
  explicit HeldScratch(std::size_t count);
  ~HeldScratch();
  HeldScratch(const HeldScratch&) = delete;
  HeldScratch& operator=(const HeldScratch&) = delete;

  float* data() const { return data_; }

 private:
  float* data_;
};

}  // namespace fla
