#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// The instructions of the family's kernels that C++ has no words for. tests/emulation runs the kernels on
/// the CPU with others in their place.
namespace fla::cuda {

/// d += A B, of 16 x 8 and 8 x 8 numbers of which the upper 19 bits count. With lane = 4 g + p: a0 .. a3 are
/// A[g][p], A[g + 8][p], A[g][p + 4] and A[g + 8][p + 4], b0 and b1 are B[p][g] and B[p + 4][g], d is D[g][2
/// p], D[g][2 p + 1] and the same of row g + 8.
__device__ inline void mma_tf32(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// d += A B, of 16 x 16 and 16 x 8 numbers of f16, two in a word. With lane = 4 g + p: a0 .. a3 are A[g][2 p
/// ..], A[g + 8][2 p ..], A[g][2 p + 8 ..] and A[g + 8][2 p + 8 ..], b0 and b1 are B[2 p ..][g] and B[2 p + 8
/// ..][g], d is as above.
__device__ inline void mma_f16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                               std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// The same of bf16.
__device__ inline void mma_bf16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// That of f16, of 16 x 8 and 8 x 8 numbers: a0, a1 and b0 as above.
__device__ inline void mma_f16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

/// A place in shared memory, as a number of bytes.
using SharedAddress = std::uint32_t;
__device__ inline SharedAddress shared_address(const void* place) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(place));
}

/// Four 8 x 8 matrices of 16-bit numbers from shared memory. Lane 8 m + r has the address of row r of matrix
/// m, at a multiple of 16 bytes; lane 4 g + p gets the numbers [g][2 p] and [g][2 p + 1] of each of them,
/// with `transposed` [2 p][g] and [2 p + 1][g].
template <bool transposed>
__device__ inline uint4 load_matrices(SharedAddress address) {
  uint4 x;
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address)
                 : "memory");
  }
  return x;
}
/// And to shared memory, as load_matrices<false>() has them. For sm_90.
__device__ inline void store_matrices(SharedAddress address, const uint4& x) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(x.x),
               "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}

/// Two numbers in a word, the first one in its lower half.
__device__ inline std::uint32_t pack_f16(float x, float y) {
  std::uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
  return word;
}
__device__ inline std::uint32_t pack_bf16(float x, float y) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
  return word;
}
__device__ inline float2 unpack_f16(std::uint32_t word) {
  float2 x;
  asm("{.reg .b16 lower, upper; mov.b32 {lower, upper}, %2; cvt.f32.f16 %0, lower; cvt.f32.f16 %1, upper;}"
      : "=f"(x.x), "=f"(x.y)
      : "r"(word));
  return x;
}
__device__ inline float2 unpack_bf16(std::uint32_t word) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}
/// With the largest numbers in the place of infinite ones.
__device__ inline std::uint32_t pack_finite_f16(float x, float y) {
  std::uint32_t word;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
  return word;
}
__device__ inline std::uint32_t multiply_f16(std::uint32_t x, std::uint32_t y) {
  std::uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
  return product;
}
/// The larger numbers of two pairs; one that is not a number is left out.
__device__ inline std::uint32_t larger_f16(std::uint32_t x, std::uint32_t y) {
  std::uint32_t larger;
  asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(x), "r"(y));
  return larger;
}
__device__ inline std::uint32_t larger_bf16(std::uint32_t x, std::uint32_t y) {
  std::uint32_t larger;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(x), "r"(y));
  return larger;
}

/// 2^x; what underflows is 0.
__device__ inline float exp2_approximately(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Makes the compiler forget what it knows of x: it then computes again what follows from x, instead of
/// keeping that in registers.
__device__ inline void forget(float& x) { asm volatile("" : "+f"(x)); }
__device__ inline void forget(std::uint32_t& x) { asm volatile("" : "+r"(x)); }

/// 1 / x, of normal numbers.
__device__ inline float reciprocal_approximately(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace fla::cuda
