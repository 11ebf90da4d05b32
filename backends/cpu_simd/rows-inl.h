// Rows of any float dtype from and to f32. Included once for every SIMD target.

#if defined(FLA_BACKENDS_CPU_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_ROWS_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_ROWS_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_ROWS_INL_H_
#endif

#include "backends/cpu_simd/head.h"
#include "backends/cpu_simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

using D16 = hn::Rebind<std::uint16_t, DF>;  // as many 16-bit lanes as DF has floats
using V16 = hn::Vec<D16>;

template <DType kType>
HWY_INLINE VF widen(DF d, V16 half) {
  if constexpr (kType == DType::bf16) {
    const hn::RebindToUnsigned<DF> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, half)));
  } else {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), half));
  }
}

// Rounds to nearest even.
template <DType kType>
HWY_INLINE V16 narrow(VF v) {
  if constexpr (kType == DType::bf16) {
    const hn::RebindToUnsigned<DF> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    // Both are below 2^16, so saturation never happens.
    return hn::DemoteTo(D16(), hn::BitCast(hn::RebindToSigned<DF>(), hn::IfThenElse(nan, quiet, rounded)));
  } else {
    return hn::BitCast(D16(), hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), v));
  }
}

template <DType kType>
HWY_INLINE void widen_row(const std::byte* from, std::size_t count, float* HWY_RESTRICT to) {
  const DF d;
  const D16 d16;
  const std::size_t N = hn::Lanes(d);
  const auto* source = reinterpret_cast<const std::uint16_t*>(from);
  std::size_t c = 0;
  for (; c + 4 * N <= count; c += 4 * N) {
    FLA_UNROLL for (std::size_t i = 0; i < 4; ++i) {
      hn::Store(widen<kType>(d, hn::LoadU(d16, source + c + i * N)), d, to + c + i * N);
    }
  }
  for (; c + N <= count; c += N) hn::Store(widen<kType>(d, hn::LoadU(d16, source + c)), d, to + c);
  if (c < count) {
    HWY_ALIGN_MAX std::uint16_t lanes[HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(lanes, source + c, (count - c) * sizeof(std::uint16_t));
    hn::Store(widen<kType>(d, hn::Load(d16, lanes)), d, to + c);
  }
}

template <DType kType>
HWY_INLINE void narrow_row(const float* HWY_RESTRICT from, std::size_t count, std::byte* to) {
  const DF d;
  const D16 d16;
  const std::size_t N = hn::Lanes(d);
  auto* target = reinterpret_cast<std::uint16_t*>(to);
  std::size_t c = 0;
  for (; c + N <= count; c += N) hn::StoreU(narrow<kType>(hn::LoadU(d, from + c)), d16, target + c);
  if (c < count) {
    HWY_ALIGN_MAX std::uint16_t lanes[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(narrow<kType>(load_first(d, from + c, count - c)), d16, lanes);
    std::memcpy(target + c, lanes, (count - c) * sizeof(std::uint16_t));
  }
}

// `count` elements as floats in `to`, zeros up to `padded` (a multiple of the lanes; `to` is aligned).
HWY_INLINE void copy_row(const std::byte* from, DType dtype, std::size_t count, std::size_t padded,
                         float* HWY_RESTRICT to) {
  switch (dtype) {
    case DType::bf16: widen_row<DType::bf16>(from, count, to); break;
    case DType::f16: widen_row<DType::f16>(from, count, to); break;
    default: std::memcpy(to, from, count * sizeof(float));
  }
  for (std::size_t c = count; c < padded; ++c) to[c] = 0.f;
}

// The same without the copy where the row can be read as it stands.
HWY_INLINE const float* as_floats(const std::byte* from, DType dtype, std::size_t count, std::size_t padded,
                                  float* HWY_RESTRICT buffer) {
  if (dtype == DType::f32 && count == padded) return reinterpret_cast<const float*>(from);
  copy_row(from, dtype, count, padded, buffer);
  return buffer;
}

HWY_INLINE void store_row(const float* HWY_RESTRICT from, DType dtype, std::size_t count, std::byte* to) {
  switch (dtype) {
    case DType::bf16: narrow_row<DType::bf16>(from, count, to); break;
    case DType::f16: narrow_row<DType::f16>(from, count, to); break;
    default: std::memcpy(to, from, count * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
