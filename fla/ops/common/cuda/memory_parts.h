#pragma once

#include <cstddef>
#include <cstdint>

namespace fla::cuda {

/// Cuts a workspace into parts that begin at multiples of 256 bytes, one after another; without memory it
/// only counts.
struct MemoryParts {
  char* memory;
  std::size_t bytes = 0;  ///< of the parts so far

  template <class T>
  void next(T*& part, std::int64_t count) {
    part = reinterpret_cast<T*>(memory + bytes);
    bytes += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
  }
};

}  // namespace fla::cuda
