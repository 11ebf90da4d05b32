#pragma once

#include "fla/ops/common/cuda/elements.cuh"

/// A state that summaries are applied to: a block has 16 values of a head, which stay in shared memory. A
/// thread has one value, and a row of the state of every 16.
namespace fla::cuda {

inline constexpr int kMergeValues = 16, kMergeThreads = 256, kMergeRows = kMergeThreads / kMergeValues;
inline constexpr int kMostMergedKeys = 256, kMergeRowsEach = kMostMergedKeys / kMergeRows;
inline constexpr int kMergeColumns = 16;  ///< of P at once

/// P of one head.
struct Transition {
  const float* P;
  std::int64_t row, column;
  bool diagonal;
};

/// Shared memory of a block.
struct MergeMemory {
  float state[kMostMergedKeys][kMergeValues];
  float P[kMostMergedKeys][kMergeColumns + 1];  ///< apart, so that two rows are never in one bank
};

struct MergedState {
  float (&state)[kMostMergedKeys][kMergeValues];
  float (&columns)[kMostMergedKeys][kMergeColumns + 1];
  const int K, column, first, value;  ///< value: of the head
  const bool there;                   ///< whether the head has that value

  __device__ MergedState(MergeMemory& memory, int keys, int values, int block)
      : state(memory.state),
        columns(memory.P),
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
    float coming[kMergeRowsEach];
    fetch(by, 0, coming);
#pragma unroll
    for (int r = 0; r < kMergeRowsEach; ++r) product[r] = 0;
    for (int from = 0; from < K; from += kMergeColumns) {
      __syncthreads();  // all of the state is there, and the columns before have been read
      put(by, coming);
      __syncthreads();
      if (from + kMergeColumns < K) fetch(by, from + kMergeColumns, coming);
      for (int j = 0; j < min(kMergeColumns, K - from); ++j) {
        const float x = state[from + j][column];
        rows([&](int r, int i) { product[r] += columns[i][j] * x; });
      }
    }
    __syncthreads();  // the state has been read
  }

  __device__ void replace(const float (&by)[kMergeRowsEach]) {
    rows([&](int r, int i) { state[i][column] = by[r]; });
  }

 private:
  /// body(r, row, column) for each of the thread's elements of some columns of P: neighbouring threads have
  /// neighbours in memory.
  template <class Body>
  __device__ void elements(const Transition& of, Body&& body) const {
#pragma unroll
    for (int r = 0; r < kMergeRowsEach; ++r) {
      const int i = static_cast<int>(threadIdx.x) + r * kMergeThreads;
      const bool by_rows = of.column == 1;
      const int row = by_rows ? i / kMergeColumns : i % K, at = by_rows ? i % kMergeColumns : i / K;
      if (i < K * kMergeColumns) body(r, row, at);
    }
  }
  __device__ void fetch(const Transition& of, int from, float (&to)[kMergeRowsEach]) const {
    elements(of, [&](int r, int row, int at) {
      to[r] = from + at < K ? of.P[row * of.row + (from + at) * of.column] : 0;
    });
  }
  __device__ void put(const Transition& of, const float (&from)[kMergeRowsEach]) const {
    elements(of, [&](int r, int row, int at) { columns[row][at] = from[r]; });
  }
};

}  // namespace fla::cuda
