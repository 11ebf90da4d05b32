#pragma once

#include <cstdint>

#include "fla/ops/common/cuda/instructions.cuh"

/// Products of f32 matrices on the tensor cores: mma.m16n8k8 in tf32 (11 bits), three times on operands split
/// into a high and a low part (22 bits: as good as f32 here).
///
///     D [16 x 8] += A [16 x 8] B [8 x 8]          lane = 4 g + p
///
///     D, A   rows g and g + 8, columns 2 p and 2 p + 1          B   rows 2 p and 2 p + 1, column g
///
/// The hardware pairs column p of A with p + 4; here slot p stands for column 2 p and slot p + 4 for 2 p + 1,
/// which is as good, for a sum has no order. So A is laid out like D, and a result can be the next product's
/// operand without leaving its registers; and B is one float2 from a row of its transpose in shared memory.
namespace fla::cuda {

using Fragment = float[4];  ///< [g][2p], [g][2p+1], [g+8][2p], [g+8][2p+1]

/// What the tensor core reads of an f32 number: its upper 19 bits, the others are ignored. `low` is what is
/// left.
struct Parts {
  std::uint32_t high, low;
};

/// To nearest: `low` leans to no side, and neither does the product of two lows, which is left out.
__device__ inline Parts split_nearest(float x) {
  const std::uint32_t high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  return {high, __float_as_uint(x - __uint_as_float(high))};
}

/// One instruction less, for the operand that is split more often; the other one is split to nearest.
__device__ inline Parts split_down(float x) {
  return {__float_as_uint(x), __float_as_uint(x - __uint_as_float(__float_as_uint(x) & 0xffffe000u))};
}

struct OperandA {
  Parts x[4];
  __device__ explicit OperandA(const Fragment& a) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = split_nearest(a[i]);
  }
};

/// d[n] += A B[n] for every n from `first` on, which the compiler must know; the passes go over all n in
/// turn, so that no product waits for the one before it.
template <int count>
__device__ void multiply(Fragment (&d)[count], const OperandA& a, const float2 (&b)[count], int first = 0) {
  const Parts(&x)[4] = a.x;
  Parts y[count][2];
#pragma unroll
  for (int n = 0; n < count; ++n) {
    if (n < first) continue;
    y[n][0] = split_down(b[n].x), y[n][1] = split_down(b[n].y);
    mma_tf32(d[n], x[0].low, x[2].low, x[1].low, x[3].low, y[n][0].high, y[n][1].high);
  }
#pragma unroll
  for (int n = 0; n < count; ++n) {
    if (n < first) continue;
    mma_tf32(d[n], x[0].high, x[2].high, x[1].high, x[3].high, y[n][0].low, y[n][1].low);
  }
#pragma unroll
  for (int n = 0; n < count; ++n) {
    if (n < first) continue;
    mma_tf32(d[n], x[0].high, x[2].high, x[1].high, x[3].high, y[n][0].high, y[n][1].high);
  }
}

/// d[n] += A (rows 8 n .. of `rows`, columns `column` ..)^T for every n from `first` on.
template <int count>
__device__ void multiply_rows(Fragment (&d)[count], const OperandA& a, const float* rows, int row_stride,
                              int column, int first = 0) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  float2 b[count];
#pragma unroll
  for (int n = 0; n < count; ++n) {
    if (n >= first) b[n] = *reinterpret_cast<const float2*>(rows + (8 * n + g) * row_stride + column + 2 * p);
  }
  multiply(d, a, b, first);
}

/// d[n] += A (rows `row` .., columns 8 n .. of `tile`) for every n.
template <int count>
__device__ void multiply_columns(Fragment (&d)[count], const OperandA& a, const float* tile, int row_stride,
                                 int row) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  const float* const first = tile + (row + 2 * p) * row_stride + g;
  float2 b[count];
#pragma unroll
  for (int n = 0; n < count; ++n) b[n] = {first[8 * n], first[8 * n + row_stride]};
  multiply(d, a, b);
}

}  // namespace fla::cuda
