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

/// 2^x; what underflows is 0.
__device__ inline float exp2_approximately(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace fla::cuda
