#pragma once

#include <atomic>
#include <cstddef>

#include "fla/core/device_memory.h"

namespace fla::command {

/// Counts, while it lives, what the library allocates on GPUs; only one may live at a time. The memory must
/// come back before its end. Only in builds with CUDA.
class CountedAllocations {
 public:
  CountedAllocations();
  ~CountedAllocations();
  CountedAllocations(const CountedAllocations&) = delete;
  CountedAllocations& operator=(const CountedAllocations&) = delete;

  /// Of everything that was asked for so far.
  std::size_t bytes() const { return bytes_; }

 private:
  static void* allocate(void* context, std::size_t bytes, Device device, Stream stream);
  static void release(void* context, void* memory, std::size_t bytes, Device device, Stream stream);

  std::atomic<std::size_t> bytes_ = 0;
};

}  // namespace fla::command
