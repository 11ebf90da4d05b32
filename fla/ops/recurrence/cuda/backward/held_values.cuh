#pragma once

#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/recurrence/cuda/tokens.cuh"

namespace fla::cuda {

/// Rows of `width` values of a chunk: fetched ahead into registers by all `threads`, put into shared memory,
/// in rows that are `row` floats apart, when there is room.
template <int C, int width, int threads, int row>
struct HeldValues {
  static constexpr int kEach = C * width / threads;
  std::uint32_t bits[kEach];

  __device__ static int token(int r) { return (r * threads + static_cast<int>(threadIdx.x)) / width; }
  __device__ static int value() { return static_cast<int>(threadIdx.x) % width; }

  __device__ void fetch(const Rows& rows, int head, int first_value, int values, const TokenRange& range) {
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const bool there = token(r) < range.count && first_value + value() < values;
      const std::int64_t at = range.batch * rows.batch + (range.first + token(r)) * rows.token +
                              head * rows.head + (first_value + value()) * rows.channel;
      bits[r] = there ? load_bits(rows.data, is_16_bit(rows.dtype), at) : 0;
    }
  }
  __device__ void put(DType dtype, float factor, float* tile) const {
#pragma unroll
    for (int r = 0; r < kEach; ++r) tile[token(r) * row + value()] = factor * to_float(bits[r], dtype);
  }
};

}  // namespace fla::cuda
