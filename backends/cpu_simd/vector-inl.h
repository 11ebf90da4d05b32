// The vector type of a SIMD target and the few operations that Highway does not have. Included once for every
// target.

#if defined(FLA_BACKENDS_CPU_SIMD_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_VECTOR_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_VECTOR_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifndef FLA_UNROLL
#ifdef __clang__
#define FLA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FLA_UNROLL _Pragma("GCC unroll 64")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
constexpr int kLanes = HWY_LANES(float);
#if HWY_TARGET == HWY_SVE_256
// Of known size, so that there are arrays of it: the files are compiled with -msve-vector-bits=256.
typedef hn::Vec<DF> VF __attribute__((arm_sve_vector_bits(256)));
#else
using VF = hn::Vec<DF>;
#endif
using D4 = hn::FixedTag<float, 4>;
using V4 = hn::Vec<D4>;

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// A pointer whose origin the compiler does not see: what is read or written around it is then addressed from
// it, and neighbours can become one instruction. Otherwise gcc gives every offset a register of its own.
template <class T>
HWY_INLINE T* opaque(T* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

// The first `count` lanes from memory, zeros behind them; nothing behind them is read.
HWY_INLINE VF load_first(DF d, const float* from, std::size_t count) {
  HWY_ALIGN_MAX float lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(d, lanes);
}

HWY_INLINE void store_first(VF v, DF d, float* to, std::size_t count) {
  HWY_ALIGN_MAX float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(float));
}

HWY_INLINE float sum_lanes(DF d, hn::Vec<DF> v) { return hn::GetLane(hn::SumOfLanes(d, v)); }
HWY_INLINE float max_lanes(DF d, hn::Vec<DF> v) { return hn::GetLane(hn::MaxOfLanes(d, v)); }

// Transposes 4 x 4 within every 128-bit block.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transpose4(D d, V& a, V& b, V& c, V& e) {
  const hn::RepartitionToWide<hn::RebindToUnsigned<D>> dw;
  const auto ab_low = hn::BitCast(dw, hn::InterleaveLower(d, a, b)),
             ce_low = hn::BitCast(dw, hn::InterleaveLower(d, c, e));
  const auto ab_high = hn::BitCast(dw, hn::InterleaveUpper(d, a, b)),
             ce_high = hn::BitCast(dw, hn::InterleaveUpper(d, c, e));
  a = hn::BitCast(d, hn::InterleaveLower(dw, ab_low, ce_low));
  b = hn::BitCast(d, hn::InterleaveUpper(dw, ab_low, ce_low));
  c = hn::BitCast(d, hn::InterleaveLower(dw, ab_high, ce_high));
  e = hn::BitCast(d, hn::InterleaveUpper(dw, ab_high, ce_high));
}

// The sum of the 128-bit blocks of v.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V4 sum_of_blocks(D d, V v) {
#if HWY_TARGET == HWY_SVE_256
  static_cast<void>(d);
  return hn::Add(v, svext(v, v, 4));
#else
  if constexpr (hn::MaxLanes(D()) == 4) {
    static_cast<void>(d);
    return v;
  } else {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
}

// The sums over the lanes of four vectors. A vector's sum has the same bits whatever the other three are.
HWY_INLINE V4 sums_of_lanes(DF d, hn::Vec<DF> a, hn::Vec<DF> b, hn::Vec<DF> c, hn::Vec<DF> e) {
  transpose4(d, a, b, c, e);
  return sum_of_blocks(d, hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

// Four vectors along channels (one of each of four tokens) to channel-major storage: to[channel * step +
// 0..3].
#if HWY_TARGET == HWY_SVE_256
HWY_INLINE void store_transposed(DF, VF a, VF b, VF c, VF e, float* HWY_RESTRICT to, std::size_t step) {
  const D4 d4;
  const auto channels = [&](svfloat64_t pair, std::size_t first)
                            HWY_ATTR {  // the four tokens of two channels
                              const svfloat32_t both = svreinterpret_f32(pair);
                              hn::StoreU(both, d4, to + first * step);
                              hn::StoreU(svext(both, both, 4), d4, to + (first + 1) * step);
                            };
  const svfloat64_t ab_low = svreinterpret_f64(svzip1(a, b)), ce_low = svreinterpret_f64(svzip1(c, e));
  const svfloat64_t ab_high = svreinterpret_f64(svzip2(a, b)), ce_high = svreinterpret_f64(svzip2(c, e));
  channels(svzip1(ab_low, ce_low), 0);
  channels(svzip2(ab_low, ce_low), 2);
  channels(svzip1(ab_high, ce_high), 4);
  channels(svzip2(ab_high, ce_high), 6);
}
#else
// Every 128-bit block of v to a place of its own, `step` floats apart.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_blocks(V v, D d, float* to, std::size_t step) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_blocks(hn::LowerHalf(half, v), half, to, step);
    store_blocks(hn::UpperHalf(half, v), half, to + hn::MaxLanes(half) / 4 * step, step);
  }
}

HWY_INLINE void store_transposed(DF d, VF a, VF b, VF c, VF e, float* HWY_RESTRICT to, std::size_t step) {
  transpose4(d, a, b, c, e);  // lane block m of the r-th vector is now channel 4 m + r
  store_blocks(a, d, to, 4 * step);
  store_blocks(b, d, to + step, 4 * step);
  store_blocks(c, d, to + 2 * step, 4 * step);
  store_blocks(e, d, to + 3 * step, 4 * step);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
