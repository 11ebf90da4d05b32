#pragma once

#include <cstdint>

/// Sums across the lanes of a warp. A group is `lanes` lanes that lie `stride` apart (powers of two).
namespace fla::cuda {

template <int lanes = 32, int stride = 1>
__device__ float reduce(float x) {
#pragma unroll
  for (int mask = stride * lanes / 2; mask >= stride; mask /= 2) x += __shfl_xor_sync(~0u, x, mask);
  return x;
}

/// Sums x[i] over the group, for every i, and spreads the sums: count - 1 exchanges and not count *
/// log2(lanes). With m the lane's place in its group, x[j] becomes the sum number m * (count / lanes) + j;
/// where there are fewer sums than lanes, x[0] becomes the sum number m / (lanes / count).
template <int lanes, int stride, int count>
__device__ void reduce_scatter(float (&x)[count]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int mask = stride * lanes / 2, left = count; mask >= stride;
       mask /= 2, left = left > 1 ? left / 2 : 1) {
    if (left == 1) {
      x[0] += __shfl_xor_sync(~0u, x[0], mask);
      continue;
    }
    const bool upper = lane & mask;
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      if (i >= left / 2) continue;
      const float give = upper ? x[i] : x[i + left / 2], keep = upper ? x[i + left / 2] : x[i];
      x[i] = keep + __shfl_xor_sync(~0u, give, mask);
    }
  }
}

/// The other way: what the lane that reduce_scatter left sum number i to holds in its place for it.
template <int lanes, int stride, int count, int held>
__device__ float from_owner(const float (&x)[held], int i) {
  const int owner = count >= lanes ? i / held : i * (lanes / count);
  const int base = threadIdx.x % 32 & ~((lanes - 1) * stride);
  return __shfl_sync(~0u, x[count >= lanes ? i % held : 0], base + owner * stride);
}

}  // namespace fla::cuda
