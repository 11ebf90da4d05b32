#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulation/shadow.h"

namespace fla::emulation {

/// A piece of global memory between pages that nobody may touch. It ends at such a page, up to the padding
/// that keeps its first byte at a multiple of 16: kernels touch global memory by plain pointers, and this is
/// how a step over the edge is seen.
class Buffer {
 public:
  Buffer(std::string name, std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Whether `address` is in the buffer or in the pages around it.
  bool is_near(const void* address) const;
  /// Whether somebody wrote into the padding.
  bool is_overrun() const;
  Shadow& shadow() { return shadow_; }  ///< of what copies do; plain pointers leave no trace

 private:
  std::string name_;
  std::size_t bytes_, mapped_;
  std::byte* map_;
  std::byte* data_;
  Shadow shadow_;
};

class GlobalMemory {
 public:
  /// Filled with ones: as floats of any size, NaN.
  std::byte* add(std::string name, std::size_t bytes);
  /// The buffer that holds all of [address, address + bytes); null when none does.
  Buffer* holding(const void* address, std::size_t bytes) const;
  Buffer* near(const void* address) const;
  const std::vector<std::unique_ptr<Buffer>>& buffers() const { return buffers_; }

 private:
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace fla::emulation
