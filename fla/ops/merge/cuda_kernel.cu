#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/merge/cuda_kernel.h"

/// A block has 16 values of a head of a sequence; its part of the state stays in shared memory for all
/// summaries. A thread has one value, and a row of the state of every 16.
namespace fla::cuda {
namespace {

constexpr int kMergeValues = 16, kMergeThreads = 256, kMergeRows = kMergeThreads / kMergeValues;
constexpr int kMostKeys = 256, kMergeRowsEach = kMostKeys / kMergeRows;

__global__ void __launch_bounds__(kMergeThreads) merge(const __grid_constant__ MergeCall call) {
  __shared__ float state[kMostKeys][kMergeValues];
  const int blocks = (call.V + kMergeValues - 1) / kMergeValues;
  const int head = static_cast<int>(blockIdx.x / blocks % call.HV);
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  const int column = static_cast<int>(threadIdx.x) % kMergeValues;
  const int first = static_cast<int>(threadIdx.x) / kMergeValues;
  const int value = static_cast<int>(blockIdx.x % blocks) * kMergeValues + column;
  const bool there = value < call.V;

  const common::States &from = call.initial_state, &to = call.final_state;
  for (int i = first; i < call.K; i += kMergeRows) {
    state[i][column] = from.data && there ? load(from.data, from.dtype,
                                                 from.offset(n, head) + i * from.key + value * from.value)
                                          : 0;
  }
  for (std::int64_t c = 0; c < call.C; ++c) {
    const float *const P = call.P_at(c, n, head), *const R = call.R_at(c, n, head);
    float next[kMergeRowsEach];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kMergeRowsEach; ++r) {
      const int i = first + r * kMergeRows;
      if (i >= call.K) break;
      float sum = 0;
      if (call.diagonal) {
        sum = P[i * call.P_row] * state[i][column];
      } else {
        for (int j = 0; j < call.K; ++j) sum += P[i * call.P_row + j * call.P_column] * state[j][column];
      }
      next[r] = sum + (there ? R[i * call.R_key + value * call.R_value] : 0);
    }
    __syncthreads();  // the state has been read
#pragma unroll
    for (int r = 0; r < kMergeRowsEach; ++r) {
      if (const int i = first + r * kMergeRows; i < call.K) state[i][column] = next[r];
    }
  }
  for (int i = first; i < call.K && there; i += kMergeRows)
    store(to.data, to.dtype, to.offset(n, head) + i * to.key + value * to.value, state[i][column]);
}

}  // namespace

std::int64_t merge_blocks(const MergeCall& call) {
  return call.N * call.HV * ((call.V + kMergeValues - 1) / kMergeValues);
}

cudaError_t launch_merge(const MergeCall& call, cudaStream_t stream) {
  return launch_blocks<merge, 0>(merge_blocks(call), kMergeThreads, stream, call);
}

}  // namespace fla::cuda
