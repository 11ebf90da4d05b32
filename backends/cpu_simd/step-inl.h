// One token of the recurrence, in two passes over a block of state columns. Included once for every SIMD
// target.
//
//   p = x^T S     r = (d q)^T S     d is the token's decay, q carries the scale
//
//   rank 1    x = d k    u = beta v - beta p    o = r + (q . k) u                S = d S + k u^T
//   rank 2    x = a      u = p                  o = r + (q . b) u + (q . k) v    S = d S + b u^T + k v^T
//
// The first pass reads S for p and r, the second writes it. Rank 2 is Rule::low_rank with its pair a and b,
// rank 1 every other rule.

#if defined(FLA_BACKENDS_CPU_SIMD_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_STEP_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_STEP_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_STEP_INL_H_
#endif

#include <algorithm>

#include "backends/cpu_simd/exp2-inl.h"
#include "backends/cpu_simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

// A token's vectors along K, padded with zeros.
struct Step {
  float* decay;        // d
  float* key;          // k
  float* probe;        // x
  float* decayed_q;    // d q
  float* b = nullptr;  // with rank 2
  float qk;            // q . k
  float qb;            // q . b, with rank 2
  float beta;          // of the delta rule
  float weight;        // of v: beta, or 1; with rank 1
};

// What a step with rank 1 needs; one with rank 2 has its own x and b besides. The log2 of the decay is unit *
// g; q and k are multiplied by their factors. With the additive rule nothing is read by a key: zeros stand
// for x, and a beta of 0.
HWY_INLINE void prepare_step(DF d, Rule rule, const float* HWY_RESTRICT q, const float* HWY_RESTRICT k,
                             const float* HWY_RESTRICT g, float unit, float q_factor, float k_factor,
                             float beta, std::size_t padded, Step& step) {
  const bool reads = rule == Rule::delta;
  const std::size_t N = hn::Lanes(d);
  const VF units = hn::Set(d, unit), q_factors = hn::Set(d, q_factor), k_factors = hn::Set(d, k_factor);
  VF qk = hn::Zero(d);
  const auto channels_at = [&](std::size_t c, VF a) HWY_ATTR {
    const VF kc = hn::Mul(hn::LoadU(d, k + c), k_factors), qc = hn::Mul(hn::LoadU(d, q + c), q_factors);
    hn::Store(a, d, step.decay + c);
    hn::Store(kc, d, step.key + c);
    hn::Store(reads ? hn::Mul(a, kc) : hn::Zero(d), d, step.probe + c);
    hn::Store(hn::Mul(a, qc), d, step.decayed_q + c);
    qk = hn::MulAdd(qc, kc, qk);
  };
  std::size_t c = 0;
  for (; c + 4 * N <= padded; c += 4 * N) {
    VF a[4];
    FLA_UNROLL for (int i = 0; i < 4; ++i) a[i] = hn::Mul(hn::LoadU(d, g + c + i * kLanes), units);
    exp2<4>(d, a);
    FLA_UNROLL for (int i = 0; i < 4; ++i) channels_at(c + static_cast<std::size_t>(i * kLanes), a[i]);
  }
  for (; c < padded; c += N) channels_at(c, exp2(d, hn::Mul(hn::LoadU(d, g + c), units)));
  step.qk = sum_lanes(d, qk);
  step.beta = reads ? beta : 0.f;
  step.weight = reads ? beta : 1.f;
}

// d S + b u + k v, or with rank 1 d S + k u
template <int kRank>
HWY_INLINE VF next_state(VF decay, VF state, VF key, VF v, VF b, VF u) {
  if constexpr (kRank == 1) return hn::MulAdd(decay, state, hn::Mul(key, u));
  return hn::MulAdd(decay, state, hn::MulAdd(b, u, hn::Mul(key, v)));
}

// Of columns whose sums are p and r. With rank 1 the weighted v is v_factor times v.
template <int kRank, class D>
HWY_INLINE hn::Vec<D> u_of(D d, const Step& step, hn::Vec<D> p, float v_factor, hn::Vec<D> v) {
  if constexpr (kRank == 2) return p;
  return hn::NegMulAdd(hn::Set(d, step.beta), p, hn::Mul(hn::Set(d, v_factor), v));
}
template <int kRank, class D>
HWY_INLINE hn::Vec<D> output_of(D d, const Step& step, hn::Vec<D> r, hn::Vec<D> u, hn::Vec<D> v) {
  const hn::Vec<D> qk = hn::Set(d, step.qk);
  if constexpr (kRank == 1) return hn::MulAdd(u, qk, r);
  return hn::MulAdd(v, qk, hn::MulAdd(u, hn::Set(d, step.qb), r));
}

// Prefetches memory that is needed later, a few lines at a time.
struct Ahead {
  const float* at = nullptr;
  const float* end = nullptr;

  // May run a little past the end: a prefetch never faults.
  template <int kFloats>
  HWY_INLINE void touch() {
    if (at >= end) return;
    FLA_UNROLL for (int i = 0; i < kFloats; i += 16) __builtin_prefetch(at + i, 0, 2);
    at += kFloats;
  }
};

template <int kLane, int kVectors>
HWY_INLINE void add_rows(DF d, const float* HWY_RESTRICT state, std::size_t row, const Quad& x, const Quad& q,
                         VF (&p)[kVectors], VF (&r)[kVectors]) {
  if constexpr (kLane < 4) {
    const VF xc = broadcast<kLane>(d, x), qc = broadcast<kLane>(d, q);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
      const VF s = hn::LoadU(d, state + kLane * row + n * kLanes);
      p[n] = hn::MulAdd(s, xc, p[n]);
      r[n] = hn::MulAdd(s, qc, r[n]);
    }
    add_rows<kLane + 1, kVectors>(d, state, row, x, q, p, r);
  }
}

// First pass over kVectors vectors of columns: reads `channels` rows of the state and v, writes u and o.
// Where no second one follows it brings all lines ahead, and half of them otherwise.
template <int kRank, int kVectors, bool kAlone = false>
HWY_INLINE void step_read(DF d, const Step& step, const float* HWY_RESTRICT state, std::size_t row,
                          std::size_t channels, const float* v, float v_factor, float* u, float* o,
                          Ahead& ahead) {
  VF p[kVectors], r[kVectors];
  FLA_UNROLL for (int n = 0; n < kVectors; ++n) p[n] = r[n] = hn::Zero(d);
  Ahead lines = ahead;
  const float *HWY_RESTRICT x_scalars = step.probe, *HWY_RESTRICT q_scalars = step.decayed_q;
  std::size_t k = 0;
  for (; k + 4 <= channels; k += 4) {
    lines.touch<(kAlone ? 4 : 2) * kVectors * kLanes>();
    add_rows<0, kVectors>(d, state + k * row, row, load_quad(d, x_scalars + k), load_quad(d, q_scalars + k),
                          p, r);
  }
  for (; k < channels; ++k) {
    const VF xc = hn::Set(d, step.probe[k]), qc = hn::Set(d, step.decayed_q[k]);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
      const VF s = hn::LoadU(d, state + k * row + n * kLanes);
      p[n] = hn::MulAdd(s, xc, p[n]);
      r[n] = hn::MulAdd(s, qc, r[n]);
    }
  }
  ahead = lines;
  FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
    const VF vn = hn::LoadU(d, v + n * kLanes), un = u_of<kRank>(d, step, p[n], v_factor, vn);
    hn::StoreU(un, d, u + n * kLanes);
    hn::StoreU(output_of<kRank>(d, step, r[n], un, vn), d, o + n * kLanes);
  }
}

// Second pass: `to` may be `from`. With rank 2 it reads v, and brings `soon`, the block that the next first
// pass reads, to L1; with rank 1 that was no gain.
template <int kRank, int kVectors>
HWY_INLINE void step_write(DF d, const Step& step, const float* from, float* to, std::size_t row,
                           std::size_t channels, const float* v, const float* u, const float* soon,
                           Ahead& ahead) {
  // Loads, then arithmetic, then stores of a few vectors: neighbours become one instruction where the target
  // has loads and stores of pairs.
  constexpr int kTogether = std::min(kVectors, kTileRows);
  VF un[kVectors], vn[kVectors];
  FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
    un[n] = hn::LoadU(d, u + n * kLanes);
    vn[n] = kRank == 2 ? hn::LoadU(d, v + n * kLanes) : hn::Zero(d);
  }
  Ahead lines = ahead;
  const float *decays = step.decay, *keys = step.key, *bs = step.b;
  for (std::size_t k = 0; k < channels; ++k) {
    lines.touch<kVectors * kLanes / 2>();
    if constexpr (kRank == 2) {
      FLA_UNROLL for (int i = 0; i < kVectors * kLanes; i += 16) {
        __builtin_prefetch(soon + k * row + static_cast<std::size_t>(i), 0, 3);
      }
    }
    const VF decay = hn::Set(d, decays[k]), key = hn::Set(d, keys[k]);
    const VF b = hn::Set(d, kRank == 2 ? bs[k] : 0.f);
    const float* source = from + k * row;
    float* target = to + k * row;
    FLA_UNROLL for (int n = 0; n < kVectors; n += kTogether) {
      VF s[kTogether];
      FLA_UNROLL for (int i = 0; i < kTogether; ++i) s[i] = hn::LoadU(d, source + (n + i) * kLanes);
      FLA_UNROLL for (int i = 0; i < kTogether; ++i) {
        s[i] = next_state<kRank>(decay, s[i], key, vn[n + i], b, un[n + i]);
      }
      FLA_UNROLL for (int i = 0; i < kTogether; ++i) hn::StoreU(s[i], d, target + (n + i) * kLanes);
    }
  }
  ahead = lines;
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
