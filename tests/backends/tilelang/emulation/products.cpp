#include "tests/backends/tilelang/emulation/products.h"

#include <array>
#include <cstring>

#include "fla/core/half.h"
#include "tests/emulation/block.h"

alignas(1024) constinit thread_local unsigned char fla::tilelang::generated::buf_dyn_shmem[kSharedBytes];

namespace fla::tilelang::emulated {
namespace {

using Row = std::array<float, kProductDepth>;

/// Row mn of an operand (of the second one: column). Memory is swizzled in pieces of 16 bytes.
Row row_of(Operand operand, int mn) {
  const std::uint64_t begin = (operand.descriptor & 0xffffffff) << 4,
                      leading = (operand.descriptor >> 32 & 0xffff) << 4,
                      stride = (operand.descriptor >> 48) << 4;
  const auto row = static_cast<std::uint64_t>(mn);
  const unsigned char* const memory = generated::buf_dyn_shmem;
  const auto place = [memory](std::uint64_t at) { return memory + (at ^ (at >> 7 & 7) << 4); };
  std::array<f16, kProductDepth> elements;
  if (operand.mn_major) {
    const std::uint64_t at = begin + row / 64 * leading + row % 64 * 2;
    for (std::uint64_t k = 0; k < kProductDepth; ++k)
      std::memcpy(&elements[k], place(at + k / 8 * stride + k % 8 * 128), 2);
  } else {
    const std::uint64_t at = begin + row / 8 * stride + row % 8 * 128;
    for (std::uint64_t k = 0; k < kProductDepth; k += 8) std::memcpy(&elements[k], place(at + k * 2), 16);
  }
  Row values;
  for (std::size_t k = 0; k < kProductDepth; ++k) values[k] = to_float(elements[k]);
  return values;
}

/// Four sums side by side: in which order the hardware adds up is not known anyway.
float dot(const Row& x, const Row& y) {
  std::array<float, 4> sums{};
  for (std::size_t k = 0; k < kProductDepth; k += 4)
    for (std::size_t i = 0; i < 4; ++i) sums[i] += x[k + i] * y[k + i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

void multiply(Operand a, Operand b, int columns, float* sums, bool add) {
  const int thread = emulation::block::thread_index.x % 128, lane = thread % 32;
  const int first = thread / 32 * 16 + lane / 4;
  const std::array<Row, 2> rows{row_of(a, first), row_of(a, first + 8)};
  for (int i = 0; i < columns / 4; ++i) {
    const Row column = row_of(b, i / 2 * 8 + lane % 4 * 2 + i % 2);
    for (int half = 0; half < 2; ++half) {
      float& sum = sums[i / 2 * 4 + half * 2 + i % 2];
      sum = (add ? sum : 0) + dot(rows[static_cast<std::size_t>(half)], column);
    }
  }
}

}  // namespace fla::tilelang::emulated
