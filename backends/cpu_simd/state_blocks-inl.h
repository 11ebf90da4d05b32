// A head's state from and to blocks of columns [channels][width], for both layouts. Included once for every
// SIMD target.

#if defined(FLA_BACKENDS_CPU_SIMD_STATE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_STATE_BLOCKS_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_STATE_BLOCKS_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_STATE_BLOCKS_INL_H_
#endif

#include <algorithm>

#include "backends/cpu_simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

// to[c * to_row + r] = from[r * from_row + c]
HWY_INLINE void transpose(const float* HWY_RESTRICT from, std::size_t from_row, std::size_t rows,
                          std::size_t columns, float* HWY_RESTRICT to, std::size_t to_row) {
  const D4 d4;
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* source = from + r * from_row;
    std::size_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      auto a = hn::LoadU(d4, source + c), b = hn::LoadU(d4, source + from_row + c);
      auto e = hn::LoadU(d4, source + 2 * from_row + c), f = hn::LoadU(d4, source + 3 * from_row + c);
      transpose4(d4, a, b, e, f);
      hn::StoreU(a, d4, to + c * to_row + r);
      hn::StoreU(b, d4, to + (c + 1) * to_row + r);
      hn::StoreU(e, d4, to + (c + 2) * to_row + r);
      hn::StoreU(f, d4, to + (c + 3) * to_row + r);
    }
    for (; c < columns; ++c) {
      for (std::size_t i = 0; i < 4; ++i) to[c * to_row + r + i] = source[i * from_row + c];
    }
  }
  for (; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) to[c * to_row + r] = from[r * from_row + c];
  }
}

// Columns [column, column + width) of the state, row k times factor[k]; zeros where the state has no row or
// column, or where there is no state. `block` is aligned, `width` a multiple of the lanes.
HWY_INLINE void load_state_block(const float* state, bool v_first, std::size_t K, std::size_t V,
                                 std::size_t column, std::size_t width, const float* HWY_RESTRICT factor,
                                 float* HWY_RESTRICT block, std::size_t channels) {
  const DF d;
  const std::size_t N = hn::Lanes(d), present = std::min(width, V - column);
  if (state == nullptr || present < width || K < channels)
    std::memset(block, 0, channels * width * sizeof(float));
  if (state == nullptr) return;
  if (v_first) {
    transpose(state + column * K, K, present, K, block, width);
  } else {
    for (std::size_t k = 0; k < K; ++k) {
      const float* row = state + k * V + column;
      std::size_t c = 0;
      for (; c + N <= present; c += N) hn::Store(hn::LoadU(d, row + c), d, block + k * width + c);
      if (c < present) hn::Store(load_first(d, row + c, present - c), d, block + k * width + c);
    }
  }
  for (std::size_t k = 0; k < K; ++k) {
    const VF f = hn::Set(d, factor[k]);
    float* row = block + k * width;
    for (std::size_t c = 0; c < width; c += N) hn::Store(hn::Mul(f, hn::Load(d, row + c)), d, row + c);
  }
}

HWY_INLINE void store_state_block(const float* HWY_RESTRICT block, std::size_t width, bool v_first,
                                  std::size_t K, std::size_t V, std::size_t column, float* state) {
  const DF d;
  const std::size_t N = hn::Lanes(d), present = std::min(width, V - column);
  if (v_first) {
    transpose(block, width, K, present, state + column * K, K);
    return;
  }
  for (std::size_t k = 0; k < K; ++k) {
    float* row = state + k * V + column;
    std::size_t c = 0;
    for (; c + N <= present; c += N) hn::StoreU(hn::Load(d, block + k * width + c), d, row + c);
    if (c < present) store_first(hn::Load(d, block + k * width + c), d, row + c, present - c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
