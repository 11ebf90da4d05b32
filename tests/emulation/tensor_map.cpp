#include "tests/emulation/tensor_map.h"

#include <stdexcept>
#include <string>

namespace fla::emulation {
namespace {

void expect(bool is_so, const std::string& what, std::uint64_t got) {
  if (!is_so) throw std::invalid_argument("tensor_map: expected " + what + ", got " + std::to_string(got));
}

}  // namespace

TensorMap tensor_map(void* data, std::uint32_t element_bytes, std::span<const std::uint64_t> size,
                     std::span<const std::uint64_t> strides, std::span<const std::uint32_t> box,
                     bool swizzled) {
  const std::size_t rank = size.size();
  expect(rank >= 1 && rank <= 5, "a rank from 1 to 5", rank);
  expect(box.size() == rank, "a box of rank " + std::to_string(rank), box.size());
  expect(strides.size() + 1 == rank, std::to_string(rank - 1) + " strides", strides.size());
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  expect(address % 16 == 0, "data at a multiple of 16 bytes", address);
  TensorMap map{.data = static_cast<std::byte*>(data),
                .element_bytes = element_bytes,
                .rank = static_cast<int>(rank),
                .swizzled = swizzled};
  map.stride[0] = element_bytes;
  for (std::size_t i = 0; i < rank; ++i) {
    expect(size[i] >= 1 && size[i] <= std::uint64_t{1} << 32, "sizes from 1 to 2^32", size[i]);
    expect(box[i] >= 1 && box[i] <= 256, "sides of the box from 1 to 256", box[i]);
    map.size[i] = size[i];
    map.box[i] = box[i];
    if (i == 0) continue;
    const std::uint64_t stride = strides[i - 1];
    expect(stride % 16 == 0 && stride < std::uint64_t{1} << 40, "strides in multiples of 16 bytes below 2^40",
           stride);
    map.stride[i] = stride;
  }
  const std::uint64_t row = std::uint64_t{box[0]} * element_bytes;
  expect(row % 16 == 0, "rows of the box in multiples of 16 bytes", row);
  expect(!swizzled || row == 128, "rows of 128 bytes with the swizzle", row);
  return map;
}

}  // namespace fla::emulation
