#include "tests/backends/tilelang/emulation/products.h"

#include <array>
#include <cstring>

#include "fla/core/half.h"
#include "tests/emulation/block.h"

alignas(1024) constinit thread_local unsigned char fla::tilelang::generated::buf_dyn_shmem[kSharedBytes];

namespace fla::tilelang::emulated {
namespace {

using Row = std::array<float, kProductDepth>;

using Elements = std::array<f16, kProductDepth>;

Row values_of(const Elements& elements) {
  Row values;
#pragma GCC unroll 1  // else gcc unrolls it before it could vectorise it
  for (std::size_t k = 0; k < kProductDepth; ++k) values[k] = to_float(elements[k]);
  return values;
}

/// Where element k is of row mn of an operand (of the second one: column). Memory is swizzled in pieces of 16
/// bytes.
const unsigned char* place(Operand operand, std::uint64_t mn, std::uint64_t k) {
  const std::uint64_t begin = (operand.descriptor & 0xffffffff) << 4,
                      leading = (operand.descriptor >> 32 & 0xffff) << 4,
                      stride = (operand.descriptor >> 48) << 4;
  const std::uint64_t at = operand.mn_major
                               ? begin + mn / 64 * leading + mn % 64 * 2 + k / 8 * stride + k % 8 * 128
                               : begin + mn / 8 * stride + mn % 8 * 128 + k * 2;
  return generated::buf_dyn_shmem + (at ^ (at >> 7 & 7) << 4);
}

Row row_of(Operand operand, int mn) {
  const auto row = static_cast<std::uint64_t>(mn);
  Elements elements;
  if (operand.mn_major) {
    for (std::uint64_t k = 0; k < kProductDepth; ++k) std::memcpy(&elements[k], place(operand, row, k), 2);
  } else {
    for (std::uint64_t k = 0; k < kProductDepth; k += 8)
      std::memcpy(&elements[k], place(operand, row, k), 16);
  }
  return values_of(elements);
}

/// Of an even mn and the next: where that goes from element to element, both are read at once.
std::array<Row, 2> two_rows_of(Operand operand, int mn) {
  if (!operand.mn_major) return {row_of(operand, mn), row_of(operand, mn + 1)};
  std::array<Elements, 2> elements;
  for (std::size_t k = 0; k < kProductDepth; ++k) {
    std::array<f16, 2> both;
    std::memcpy(&both, place(operand, static_cast<std::uint64_t>(mn), k), 4);
    elements[0][k] = both[0], elements[1][k] = both[1];
  }
  return {values_of(elements[0]), values_of(elements[1])};
}

/// Four sums side by side: in which order the hardware adds up is not known anyway.
float dot(const Row& x, const Row& y) {
  using Four = float __attribute__((vector_size(16)));
  Four sums{};
  for (std::size_t k = 0; k < kProductDepth; k += 4) {
    Four left, right;
    std::memcpy(&left, &x[k], sizeof left), std::memcpy(&right, &y[k], sizeof right);
    sums += left * right;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

void multiply(Operand a, Operand b, int columns, float* sums, bool add) {
  const int thread = emulation::block::thread_index.x % 128, lane = thread % 32;
  const int first = thread / 32 * 16 + lane / 4;
  const std::array<Row, 2> rows{row_of(a, first), row_of(a, first + 8)};
  for (int i = 0; i < columns / 8; ++i) {
    const std::array<Row, 2> both = two_rows_of(b, i * 8 + lane % 4 * 2);
    for (std::size_t half = 0; half < 2; ++half) {
      for (std::size_t column = 0; column < 2; ++column) {
        float& sum = sums[static_cast<std::size_t>(i) * 4 + half * 2 + column];
        sum = (add ? sum : 0) + dot(rows[half], both[column]);
      }
    }
  }
}

}  // namespace fla::tilelang::emulated
