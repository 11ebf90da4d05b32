#pragma once

#include <cuda_pipeline.h>

/// Copies from global to shared memory by all threads of a block, to be waited for with the pipeline's
/// functions.
namespace fla::cuda {

/// Copies `rows` rows of `width` floats (powers of two), four floats at a time, to rows that are `row` floats
/// apart.
template <int threads, int rows, int width, int row>
__device__ void copy_rows(const float* source, float* target) {
  constexpr int kOneTime = threads * 4, kTimes = (rows * width + kOneTime - 1) / kOneTime;
  static_assert(kOneTime % width == 0);
  const int first = threadIdx.x * 4;
  source += first, target += first / width * row + first % width;
#pragma unroll
  for (int i = 0; i < kTimes; ++i) {
    if (rows * width % kOneTime == 0 || first + i * kOneTime < rows * width) {
      __pipeline_memcpy_async(target + i * (kOneTime / width) * row, source + i * kOneTime, 16);
    }
  }
}

}  // namespace fla::cuda
