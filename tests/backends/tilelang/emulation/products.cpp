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

/// What the lanes of a warp read together for one product, so that no row is read twice: each lane some rows,
/// which all have once they have met. A lane may then be one product ahead of the others, no more.
struct WarpRows {
  std::array<Row, 16> a;
  std::array<Row, 256> b;
};
constexpr std::size_t kMostWarps = 16;
thread_local std::array<std::array<WarpRows, 2>, kMostWarps> rows_of_warps;
thread_local std::array<std::size_t, 32 * kMostWarps> products_of_threads;

const WarpRows& rows_of_warp(Operand a, Operand b, int columns) {
  const int thread = emulation::block::thread_index.x, lane = thread % 32, warp = thread / 32;
  const std::size_t turn = products_of_threads[static_cast<std::size_t>(thread)]++ % 2;
  WarpRows& rows = rows_of_warps[static_cast<std::size_t>(warp)][turn];
  if (lane < 16) rows.a[static_cast<std::size_t>(lane)] = row_of(a, warp % 4 * 16 + lane);
  for (int column = lane; column < columns; column += 32)
    rows.b[static_cast<std::size_t>(column)] = row_of(b, column);
  const emulation::block::WarpExchange met({});
  return rows;
}

}  // namespace

void multiply(Operand a, Operand b, int columns, float* sums, bool add) {
  const WarpRows& rows = rows_of_warp(a, b, columns);
  const auto lane = static_cast<std::size_t>(emulation::block::thread_index.x % 32);
  for (std::size_t i = 0; i < static_cast<std::size_t>(columns / 8); ++i) {
    for (std::size_t half = 0; half < 2; ++half) {
      for (std::size_t column = 0; column < 2; ++column) {
        float& sum = sums[i * 4 + half * 2 + column];
        sum = (add ? sum : 0) + dot(rows.a[lane / 4 + half * 8], rows.b[i * 8 + lane % 4 * 2 + column]);
      }
    }
  }
}

}  // namespace fla::tilelang::emulated
