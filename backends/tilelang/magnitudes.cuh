#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
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

/// The bits of `count` halves in registers, two halves a word, put together by or.
template <int count>
__device__ inline unsigned bits_of(const void* halves) {
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < count / 2; ++i) bits |= static_cast<const unsigned*>(halves)[i];
  return bits;
}

__device__ inline __nv_bfloat162 pair_of(const cutlass::bfloat16_t* values) {
  return *reinterpret_cast<const __nv_bfloat162*>(values);
}
__device__ inline __half2 pair_of(const cutlass::half_t* values) {
  return *reinterpret_cast<const __half2*>(values);
}

/// The largest magnitude of row 0 or 1 of the two rows of 16 that a thread has of 64 x 64 numbers, laid out
/// as sums of wgmma are: pairs of the two rows in turn. NaN where one of them is NaN.
template <int row, class Element>
__device__ inline float largest_of_row(const Element* values) {
  auto largest = __habs2(pair_of(values + 2 * row));
#pragma unroll
  for (int i = 1; i < 8; ++i) largest = __hmax2_nan(largest, __habs2(pair_of(values + 4 * i + 2 * row)));
  return larger_of(__low2float(largest), __high2float(largest));
}

/// What threads tell each other, in shared memory; all -1 at first.
struct Notes {
  int too_large, large_enough;  ///< the last chunk in which a thread noted such a number
  int unused[2];
  int warps[4];  ///< largest_exponent()'s
};

/// A thread's numbers of a chunk: bits of halves in units of a power of two, where only those of 2 and more
/// have bit 14 and only those of 2^-7 and more bit 14 or 13, and a magnitude, which is compared with `low`
/// and `high`.
__device__ inline void note(void* notes, int chunk, unsigned bits, float value, float low, float high) {
  Notes& all = *static_cast<Notes*>(notes);
  if ((bits & 0x40004000) != 0 || !(value < high)) all.too_large = chunk;
  if ((bits & 0x60006000) != 0 || value >= low) all.large_enough = chunk;
}

/// Whether some thread noted a number that is too large, or none noted one that is large enough. A barrier
/// stands between note() and this, another one before the next note().
__device__ inline bool is_rare(const void* notes, int chunk) {
  const int2 of_chunk = *static_cast<const int2*>(notes);
  return of_chunk.x == chunk || of_chunk.y != chunk;
}

__device__ inline int exponent_of(float magnitude, int unit) {
  const int exponent = static_cast<int>(__float_as_uint(magnitude) >> 23 & 0xff);
  return exponent == 0xff ? kNotFinite : magnitude == 0 ? kZero : exponent - 127 + unit;
}

/// The exponent of the largest magnitude, over all threads of a block of four warps, of `state` times 2^unit
/// and of `value`; kNotFinite where one of them is not finite. A barrier for the block; another one comes
/// before the next call.
__device__ inline int largest_exponent(void* notes, float state, float value, int unit) {
  int* const warps = static_cast<Notes*>(notes)->warps;
  const int own = max(exponent_of(state, unit), exponent_of(value, 0));
  const int of_warp = __reduce_max_sync(~0u, own);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  return max(max(warps[0], warps[1]), max(warps[2], warps[3]));
}

}  // namespace fla::tilelang
