// Tokens of a chunk that decay from its start and to its end, in the backward kernel, and the way back from
// their gradients. Included once for every SIMD target.

#if defined(FLA_BACKENDS_CPU_SIMD_GRADIENT_DECAYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_GRADIENT_DECAYS_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_GRADIENT_DECAYS_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_GRADIENT_DECAYS_INL_H_
#endif

#include "backends/cpu_simd/gradient_memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

// -Kd as the operand, Kr and gamma.
inline HWY_NOINLINE void decay_forwards(DF d, const GradientMemory& m, const float* HWY_RESTRICT decay) {
  const std::size_t row = m.size.row;
  for (std::size_t c = 0; c < m.size.channels; c += kLanes) {
    const auto at = [&](const float* rows, int i)
                        HWY_ATTR { return hn::Load(d, rows + static_cast<std::size_t>(i) * row + c); };
    VF product = hn::Set(d, 1.f);
    for (int i = 0; i < kTokens; i += 4) {
      VF N[4];
      FLA_UNROLL for (int r = 0; r < 4; ++r) {
        product = hn::Mul(product, at(decay, i + r));
        N[r] = hn::Neg(hn::Mul(product, at(m.k, i + r)));
      }
      store_transposed(d, N[0], N[1], N[2], N[3], m.operand + c * kTokens + static_cast<std::size_t>(i),
                       kTokens);
    }
    hn::Store(product, d, m.gamma + c);
    product = hn::Set(d, 1.f);
    for (int i = kTokens - 1; i >= 0; --i) {
      hn::Store(hn::Mul(product, at(m.k, i)), d, row_at(m.Kr, i, row) + c);
      product = hn::Mul(product, at(decay, i));
    }
  }
}

// F, Qd, N and gamma; G, and Kr as the operand.
inline HWY_NOINLINE void decay_backwards(DF d, const GradientMemory& m, const float* HWY_RESTRICT decay) {
  const std::size_t row = m.size.row;
  for (std::size_t c = 0; c < m.size.channels; c += kLanes) {
    const auto at = [&](const float* rows, int i)
                        HWY_ATTR { return hn::Load(d, rows + static_cast<std::size_t>(i) * row + c); };
    VF product = hn::Set(d, 1.f);
    for (int i = 0; i < kTokens; ++i) {
      product = hn::Mul(product, at(decay, i));
      hn::Store(product, d, row_at(m.F, i, row) + c);
      hn::Store(hn::Mul(product, at(m.q, i)), d, row_at(m.Qd_N, i, row) + c);
      hn::Store(hn::Neg(hn::Mul(product, at(m.k, i))), d, row_at(m.Qd_N, kTokens + i, row) + c);
    }
    hn::Store(product, d, m.gamma + c);
    product = hn::Set(d, 1.f);
    for (int i = kTokens - 4; i >= 0; i -= 4) {
      VF Kr[4];
      FLA_UNROLL for (int r = 3; r >= 0; --r) {
        hn::Store(product, d, row_at(m.G, i + r, row) + c);
        Kr[r] = hn::Mul(product, at(m.k, i + r));
        product = hn::Mul(product, at(decay, i + r));
      }
      store_transposed(d, Kr[0], Kr[1], Kr[2], Kr[3], m.operand + c * kTokens + static_cast<std::size_t>(i),
                       kTokens);
    }
  }
}

// The gradients of q, k and g from those of what decays from the chunk's start to a token and from a token to
// its end; dl is cleared.
template <bool kDelta>
HWY_NOINLINE void go_through_decays(DF d, const GradientMemory& m, int count) {
  const std::size_t row = m.size.row;
  for (std::size_t c = 0; c < m.size.channels; c += kLanes) {
    const auto at = [&](float* rows, int i) HWY_ATTR { return row_at(rows, i, row) + c; };
    VF later = hn::Mul(hn::Load(d, m.state_shares + c), hn::Load(d, m.gamma + c));
    for (int i = count - 1; i >= 0; --i) {
      const VF F = hn::Load(d, at(m.F, i)), dq = hn::Mul(F, hn::Load(d, at(m.dQd_dN, i)));
      hn::Store(dq, d, at(m.dq, i));
      later = hn::MulAdd(dq, hn::Load(d, at(m.q, i)), later);
      if constexpr (kDelta) {
        const VF dk = hn::Neg(hn::Mul(F, hn::Load(d, at(m.dQd_dN, kTokens + i))));
        hn::Store(dk, d, at(m.dk, i));
        later = hn::MulAdd(dk, hn::Load(d, at(m.k, i)), later);
        hn::Store(hn::Zero(d), d, at(m.dl, i));
      }
      hn::Store(later, d, at(m.dg, i));
    }
    VF earlier = hn::Zero(d);
    for (int i = 0; i < count; ++i) {
      hn::Store(hn::Add(hn::Load(d, at(m.dg, i)), earlier), d, at(m.dg, i));
      VF dk = hn::Mul(hn::Load(d, at(m.G, i)), hn::Load(d, at(m.dKr, i)));
      earlier = hn::MulAdd(dk, hn::Load(d, at(m.k, i)), earlier);
      if constexpr (kDelta) dk = hn::Add(dk, hn::Load(d, at(m.dk, i)));
      hn::Store(dk, d, at(m.dk, i));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
