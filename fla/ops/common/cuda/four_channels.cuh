#pragma once

#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/common/kernel_views.h"

/// Four neighbouring channels of tensors whose dtype and layout are known at run time only: in one access
/// where the row is packed. Of a row's last channels there may be fewer: `count`.
namespace fla::cuda {

/// Their bits, from element `at` on.
__device__ inline uint4 fetch4(const common::Rows& rows, std::int64_t at, int count) {
  const bool narrow = is_16_bit(rows.dtype);
  return rows.packed ? load_bits4(rows.data, narrow, at)
                     : gather_bits4(rows.data, narrow, at, rows.channel, count);
}

/// Of elements that are `stride` apart.
__device__ inline float4 gather4(const void* data, DType dtype, std::int64_t at, std::int64_t stride,
                                 int count) {
  return to_float4(gather_bits4(data, is_16_bit(dtype), at, stride, count), dtype);
}

__device__ inline void scatter4(void* data, DType dtype, std::int64_t at, std::int64_t stride, int count,
                                float4 x) {
  const float all[4] = {x.x, x.y, x.z, x.w};
  with_type(dtype, [&]<class T>(T*) {
    T* target = static_cast<T*>(data) + at;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) assign(target[i * stride], all[i]);
    }
  });
}

__device__ inline void store4(const common::Rows& rows, std::int64_t at, int count, float4 x) {
  if (!rows.packed) return scatter4(rows.data, rows.dtype, at, rows.channel, count, x);
  with_type(rows.dtype, [&]<class T>(T*) {
    struct alignas(4 * sizeof(T)) Four {
      T x[4];
    } four;
    assign(four.x[0], x.x), assign(four.x[1], x.y), assign(four.x[2], x.z), assign(four.x[3], x.w);
    *reinterpret_cast<Four*>(static_cast<T*>(rows.data) + at) = four;
  });
}

}  // namespace fla::cuda
