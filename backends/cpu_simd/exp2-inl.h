// Exponentials in base 2, and the gate functions built from them. Included once for every SIMD target.
//
// 2^z with z = n + f, |f| <= 1/2: the integer n goes into the exponent bits, 2^f is E(f^2) + f O(f^2) with E
// even and O odd parts of a minimax polynomial of degree 5 (relative error 9e-8, exact at 0). 2^-z shares n,
// E and O. The rounding relies on adding 1.5 * 2^23, so these files are never compiled with -ffast-math.

#if defined(FLA_BACKENDS_CPU_SIMD_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_EXP2_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_EXP2_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_EXP2_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "backends/cpu_simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr float kLog2e = 1.44269504f;
constexpr float kRounder = 12582912.f;  // 1.5 * 2^23: adding it leaves round(z) in the low mantissa bits
constexpr float kEven2 = 2.402224243e-01f, kEven4 = 9.671516716e-03f;
constexpr float kOdd1 = 6.931470037e-01f, kOdd3 = 5.550733581e-02f, kOdd5 = 1.326473895e-03f;

// 2^z and 2^-z for |z| <= 126.
HWY_INLINE void exp2_both(DF d, VF z, VF& up, VF& down) {
  const hn::RebindToSigned<DF> di;
  const VF rounder = hn::Set(d, kRounder);
  const VF t = hn::Add(z, rounder);
  const VF f = hn::Sub(z, hn::Sub(t, rounder));
  const VF h = hn::Mul(f, f);
  VF even = hn::MulAdd(h, hn::Set(d, kEven4), hn::Set(d, kEven2));
  VF odd = hn::MulAdd(h, hn::Set(d, kOdd5), hn::Set(d, kOdd3));
  even = hn::MulAdd(even, h, hn::Set(d, 1.f));
  odd = hn::MulAdd(odd, h, hn::Set(d, kOdd1));
  const auto n = hn::ShiftLeft<23>(hn::BitCast(di, t));
  up = hn::BitCast(d, hn::Add(hn::BitCast(di, hn::MulAdd(f, odd, even)), n));
  down = hn::BitCast(d, hn::Sub(hn::BitCast(di, hn::NegMulAdd(f, odd, even)), n));
}

// Several at once, in lock step: one alone waits for its own latency.
template <int kCount>
HWY_INLINE void exp2_both(DF d, const VF (&z)[kCount], VF (&up)[kCount], VF (&down)[kCount]) {
  const hn::RebindToSigned<DF> di;
  const VF rounder = hn::Set(d, kRounder);
  VF t[kCount], f[kCount], h[kCount], even[kCount], odd[kCount];
  FLA_UNROLL for (int i = 0; i < kCount; ++i) t[i] = hn::Add(z[i], rounder);
  FLA_UNROLL for (int i = 0; i < kCount; ++i) f[i] = hn::Sub(z[i], hn::Sub(t[i], rounder));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) h[i] = hn::Mul(f[i], f[i]);
  FLA_UNROLL for (int i = 0; i < kCount; ++i) even[i] =
      hn::MulAdd(h[i], hn::Set(d, kEven4), hn::Set(d, kEven2));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) odd[i] = hn::MulAdd(h[i], hn::Set(d, kOdd5), hn::Set(d, kOdd3));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) even[i] = hn::MulAdd(even[i], h[i], hn::Set(d, 1.f));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) odd[i] = hn::MulAdd(odd[i], h[i], hn::Set(d, kOdd1));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) {
    const auto n = hn::ShiftLeft<23>(hn::BitCast(di, t[i]));
    up[i] = hn::BitCast(d, hn::Add(hn::BitCast(di, hn::MulAdd(f[i], odd[i], even[i])), n));
    down[i] = hn::BitCast(d, hn::Sub(hn::BitCast(di, hn::NegMulAdd(f[i], odd[i], even[i])), n));
  }
}

// 2^z for any z: 0 below -126 (-inf included), infinity from 128 on, NaN for NaN, which Min and Max drop.
HWY_INLINE VF exp2(DF d, VF z) {
  const hn::RebindToSigned<DF> di;
  const VF low = hn::Set(d, -126.f), high = hn::Set(d, 128.f), rounder = hn::Set(d, kRounder);
  const VF in_range = hn::Min(hn::Max(z, low), high);
  const VF t = hn::Add(in_range, rounder);
  const VF f = hn::Sub(in_range, hn::Sub(t, rounder));
  const VF h = hn::Mul(f, f);
  VF even = hn::MulAdd(h, hn::Set(d, kEven4), hn::Set(d, kEven2));
  VF odd = hn::MulAdd(h, hn::Set(d, kOdd5), hn::Set(d, kOdd3));
  even = hn::MulAdd(even, h, hn::Set(d, 1.f));
  odd = hn::MulAdd(odd, h, hn::Set(d, kOdd1));
  const auto n = hn::ShiftLeft<23>(hn::BitCast(di, t));
  const auto power = hn::BitCast(d, hn::Add(hn::BitCast(di, hn::MulAdd(f, odd, even)), n));
  // At 128 the bits of `power` are those of infinity.
  return hn::IfThenElse(hn::IsNaN(z), z, hn::IfThenZeroElse(hn::Lt(z, low), power));
}

template <int kCount>
HWY_INLINE void exp2(DF d, VF (&z)[kCount]) {
  const hn::RebindToSigned<DF> di;
  const VF low = hn::Set(d, -126.f), high = hn::Set(d, 128.f), rounder = hn::Set(d, kRounder);
  VF t[kCount], f[kCount], h[kCount], even[kCount], odd[kCount];
  FLA_UNROLL for (int i = 0; i < kCount; ++i) f[i] = hn::Min(hn::Max(z[i], low), high);
  FLA_UNROLL for (int i = 0; i < kCount; ++i) t[i] = hn::Add(f[i], rounder);
  FLA_UNROLL for (int i = 0; i < kCount; ++i) f[i] = hn::Sub(f[i], hn::Sub(t[i], rounder));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) h[i] = hn::Mul(f[i], f[i]);
  FLA_UNROLL for (int i = 0; i < kCount; ++i) even[i] =
      hn::MulAdd(h[i], hn::Set(d, kEven4), hn::Set(d, kEven2));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) odd[i] = hn::MulAdd(h[i], hn::Set(d, kOdd5), hn::Set(d, kOdd3));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) even[i] = hn::MulAdd(even[i], h[i], hn::Set(d, 1.f));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) odd[i] = hn::MulAdd(odd[i], h[i], hn::Set(d, kOdd1));
  FLA_UNROLL for (int i = 0; i < kCount; ++i) {
    const auto n = hn::ShiftLeft<23>(hn::BitCast(di, t[i]));
    const auto power = hn::BitCast(d, hn::Add(hn::BitCast(di, hn::MulAdd(f[i], odd[i], even[i])), n));
    z[i] = hn::IfThenElse(hn::IsNaN(z[i]), z[i], hn::IfThenZeroElse(hn::Lt(z[i], low), power));
  }
}

// log2(1 + 2^y) = max(y, 0) + log2(1 + t), t = 2^-|y|; log2(1 + t) = 2 / ln 2 * atanh(s), s = t / (2 + t) <=
// 1/3.
HWY_INLINE VF softplus2(DF d, VF y) {
  const VF t = exp2(d, hn::Neg(hn::Abs(y)));
  const VF s = hn::Div(t, hn::Add(t, hn::Set(d, 2.f)));
  const VF w = hn::Mul(s, s);
  VF series = hn::MulAdd(w, hn::Set(d, 0.4062308721f), hn::Set(d, 0.403451944f));
  series = hn::MulAdd(series, w, hn::Set(d, 0.5774328505f));
  series = hn::MulAdd(series, w, hn::Set(d, 0.9617917163f));
  series = hn::MulAdd(series, w, hn::Set(d, 2.885390093f));
  return hn::MulAdd(series, s, hn::Max(y, hn::Zero(d)));
}

// 1 / (1 + 2^-y)
HWY_INLINE VF sigmoid2(DF d, VF y) {
  const VF one = hn::Set(d, 1.f);
  return hn::Div(one, hn::Add(one, exp2(d, hn::Neg(y))));
}

// The slope of sigmoid2, but for the factor ln 2; where that is nearly 1, what it lacks is still known.
HWY_INLINE VF sigmoid2_slope(DF d, VF y) { return hn::Mul(sigmoid2(d, y), sigmoid2(d, hn::Neg(y))); }

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
