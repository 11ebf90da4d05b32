#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "fla/core/half.h"

/// Numbers as the device computes them: to nearest even, with f16 clamped where the instruction clamps. What
/// the device approximates (to two units in the last place) is exact here; subnormal numbers become zero
/// where it makes them so.
namespace fla::emulation {

inline float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
inline float ex2(float x) { return flushed(std::exp2(flushed(x))); }
inline float rcp(float x) { return flushed(1.0f / flushed(x)); }
inline float rsqrt(float x) { return flushed(1.0f / std::sqrt(flushed(x))); }

inline std::uint16_t f16_clamped(float x) {
  if (std::isnan(x)) return 0x7fff;
  const std::uint16_t bits = from_float<f16>(x).bits;
  return (bits & 0x7fff) == 0x7c00 ? static_cast<std::uint16_t>(bits - 1) : bits;
}
inline std::uint32_t packed(std::uint16_t low, std::uint16_t high) {
  return low | static_cast<std::uint32_t>(high) << 16;
}
inline std::uint16_t half_of(std::uint32_t x, int which) {
  return static_cast<std::uint16_t>(x >> (16 * which));
}
inline std::uint32_t pack_f16(float low, float high) { return packed(f16_clamped(low), f16_clamped(high)); }
inline std::uint32_t pack_bf16(float low, float high) {
  return packed(from_float<bf16>(low).bits, from_float<bf16>(high).bits);
}
/// Not clamped.
inline std::uint32_t scale_f16(std::uint32_t x, float s) {
  const float factor = to_float(from_float<f16>(s));
  const auto scaled = [&](int which) {
    return from_float<f16>(to_float(f16{half_of(x, which)}) * factor).bits;
  };
  return packed(scaled(0), scaled(1));
}

}  // namespace fla::emulation
