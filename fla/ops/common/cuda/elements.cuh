#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "fla/core/dtype.h"

/// Elements of tensors whose dtype is known at run time only. Reading is in two steps, bits first and their
/// meaning later, so that many loads can be under way before the first one is waited for.
namespace fla::cuda {

__host__ __device__ constexpr bool is_16_bit(DType dtype) { return dtype != DType::f32; }

__device__ inline std::uint32_t load_bits(const void* data, bool narrow, std::int64_t at) {
  return narrow ? static_cast<const std::uint16_t*>(data)[at] : static_cast<const std::uint32_t*>(data)[at];
}

__device__ inline float to_float(std::uint32_t bits, DType dtype) {
  switch (dtype) {
    case DType::bf16: return __uint_as_float(bits << 16);
    case DType::f16: return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
    default: return __uint_as_float(bits);
  }
}

/// Many at once, with one branch on the dtype.
template <int count>
__device__ void to_floats(const std::uint32_t (&bits)[count], DType dtype, float (&x)[count]) {
  if (dtype == DType::bf16) {
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = to_float(bits[i], DType::bf16);
  } else if (dtype == DType::f16) {
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = to_float(bits[i], DType::f16);
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = to_float(bits[i], DType::f32);
  }
}

__device__ inline float load(const void* data, DType dtype, std::int64_t at) {
  return to_float(load_bits(data, is_16_bit(dtype), at), dtype);
}

/// body(a null pointer of the element type), to choose once for many stores.
template <class Body>
__device__ void with_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::bf16: body(static_cast<__nv_bfloat16*>(nullptr)); break;
    case DType::f16: body(static_cast<__half*>(nullptr)); break;
    default: body(static_cast<float*>(nullptr));
  }
}

__device__ inline void assign(float& target, float x) { target = x; }
__device__ inline void assign(__nv_bfloat16& target, float x) { target = __float2bfloat16_rn(x); }
__device__ inline void assign(__half& target, float x) { target = __float2half_rn(x); }

__device__ inline void store(void* data, DType dtype, std::int64_t at, float x) {
  with_type(dtype, [&]<class T>(T*) { assign(static_cast<T*>(data)[at], x); });
}

/// Four neighbouring channels: 8 bytes of 16-bit elements in x and y, or 16 bytes of f32.
__device__ inline uint4 load_bits4(const void* data, bool narrow, std::int64_t at) {
  if (narrow) {
    const uint2 bits = *reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(data) + at);
    return {bits.x, bits.y, 0, 0};
  }
  return *reinterpret_cast<const uint4*>(static_cast<const std::uint32_t*>(data) + at);
}

/// The same from elements that lie anyhow; those from `count` on are zero.
__device__ inline uint4 gather_bits4(const void* data, bool narrow, std::int64_t at, std::int64_t stride,
                                     int count) {
  std::uint32_t x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = i < count ? load_bits(data, narrow, at + i * stride) : 0;
  if (narrow) return {x[0] | x[1] << 16, x[2] | x[3] << 16, 0, 0};
  return {x[0], x[1], x[2], x[3]};
}

__device__ inline float4 to_float4(uint4 bits, DType dtype) {
  if (!is_16_bit(dtype)) {
    return {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
            __uint_as_float(bits.w)};
  }
  return {to_float(bits.x & 0xffff, dtype), to_float(bits.x >> 16, dtype), to_float(bits.y & 0xffff, dtype),
          to_float(bits.y >> 16, dtype)};
}

}  // namespace fla::cuda
