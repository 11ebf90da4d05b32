#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fla::emulation {

/// A tensor in global memory and the box of it that one copy moves: what cuTensorMapEncodeTiled makes,
/// readable. The first axis is the one whose elements are neighbours.
struct TensorMap {
  std::byte* data = nullptr;
  std::uint32_t element_bytes = 2;
  int rank = 0;
  std::array<std::uint64_t, 5> size{};    ///< elements
  std::array<std::uint64_t, 5> stride{};  ///< bytes; of the first axis element_bytes
  std::array<std::uint32_t, 5> box{};     ///< elements
  bool swizzled = true;                   ///< 128-byte swizzle; rows of the box have 128 bytes then
};

/// Axes from the first one on; strides in bytes, without that of the first axis. Throws std::invalid_argument
/// where the driver refuses.
TensorMap tensor_map(void* data, std::uint32_t element_bytes, std::span<const std::uint64_t> size,
                     std::span<const std::uint64_t> strides, std::span<const std::uint32_t> box,
                     bool swizzled = true);

}  // namespace fla::emulation
