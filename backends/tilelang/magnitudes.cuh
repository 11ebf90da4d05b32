#pragma once

#include <cuda_runtime.h>

/// What kernels/magnitudes.py calls.
namespace fla::tilelang {

inline constexpr int kZero = -100000, kNotFinite = 100000;  ///< in the place of exponents

/// NaN where one of them is NaN.
__device__ inline float larger_of(float x, float y) {
  float largest;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(x), "f"(y));
  return largest;
}

/// The larger one of `largest` and |x|.
__device__ inline float larger(float largest, float x) { return larger_of(largest, fabsf(x)); }

__device__ inline int exponent_of(float magnitude, int unit) {
  const int exponent = static_cast<int>(__float_as_uint(magnitude) >> 23 & 0xff);
  return exponent == 0xff ? kNotFinite : magnitude == 0 ? kZero : exponent - 127 + unit;
}

/// The exponent of the largest magnitude, over all threads of a block of four warps, of `state` times 2^unit
/// and of `value`; kNotFinite where one of them is not finite. A barrier for the block; another one comes
/// before the next call.
__device__ inline int largest_exponent(float state, float value, int unit) {
  __shared__ int warps[4];
  const int own = max(exponent_of(state, unit), exponent_of(value, 0));
  const int of_warp = __reduce_max_sync(~0u, own);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  return max(max(warps[0], warps[1]), max(warps[2], warps[3]));
}

}  // namespace fla::tilelang
