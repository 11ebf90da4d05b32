#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include "fla/core/tensor.h"

namespace fla_test {

/// Memory full of NaNs.
inline auto workspace_of(std::size_t bytes) {
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(256, (bytes + 256) / 256 * 256),
                                                     std::free);
  std::memset(memory.get(), 0xff, bytes);
  return memory;
}
inline void poison(const fla::Tensor& tensor) {
  if (tensor.defined())
    std::memset(tensor.data(), 0xff, static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
}

}  // namespace fla_test
