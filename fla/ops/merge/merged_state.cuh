#pragma once

#include "fla/ops/common/cuda/elements.cuh"

/// A state that summaries are applied to: a block has 16 values of a head, which stay in shared memory. A
/// thread has one value, and a row of the state of every 16.
namespace fla::cuda {

inline constexpr int kMergeValues = 16, kMergeThreads = 256, kMergeRows = kMergeThreads / kMergeValues;
inline constexpr int kMostMergedKeys = 256, kMergeRowsEach = kMostMergedKeys / kMergeRows;

/// P of one head.
struct Transition {
  const float* P;
  std::int64_t row, column;
  bool diagonal;
};

struct MergedState {
  float (&state)[kMostMergedKeys][kMergeValues];  ///< in shared memory
  const int K, column, first, value;              ///< value: of the head
  const bool there;                               ///< whether the head has that value

  __device__ MergedState(float (&memory)[kMostMergedKeys][kMergeValues], int keys, int values, int block)
      : state(memory),
        K(keys),
        column(static_cast<int>(threadIdx.x) % kMergeValues),
        first(static_cast<int>(threadIdx.x) / kMergeValues),
        value(block * kMergeValues + column),
        there(value < values) {}

  /// body(r, key) for each of the thread's rows.
  template <class Body>
  __device__ void rows(Body&& body) const {
#pragma unroll
    for (int r = 0; r < kMergeRowsEach; ++r) {
      if (const int i = first + r * kMergeRows; i < K) body(r, i);
    }
  }

  /// The state of a slot, or zeros where there are none.
  __device__ void load(const common::States& from, std::int64_t slot, int head) {
    rows([&](int, int i) {
      state[i][column] =
          from.data && there
              ? cuda::load(from.data, from.dtype, from.offset(slot, head) + i * from.key + value * from.value)
              : 0;
    });
  }

  /// The thread's elements of P times the state.
  __device__ void multiply(const Transition& by, float (&product)[kMergeRowsEach]) const {
    if (by.diagonal) {
      rows([&](int r, int i) { product[r] = by.P[i * by.row] * state[i][column]; });
      return;
    }
#pragma unroll
    for (int r = 0; r < kMergeRowsEach; ++r) product[r] = 0;
    __syncthreads();  // all of the state is there
#pragma unroll 4
    for (int j = 0; j < K; ++j) {
      const float x = state[j][column];
      rows([&](int r, int i) { product[r] += by.P[i * by.row + j * by.column] * x; });
    }
    __syncthreads();  // it has been read
  }

  __device__ void replace(const float (&by)[kMergeRowsEach]) {
    rows([&](int r, int i) { state[i][column] = by[r]; });
  }
};

}  // namespace fla::cuda
