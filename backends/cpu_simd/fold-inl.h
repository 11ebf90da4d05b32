// A few tokens of the recurrence in one pass over a block of state columns, of rank 1 (step-inl.h). Included
// once for every SIMD target.
//
//   G_t = d_1 .. d_t      D_st = d_s+1 .. d_t      N_ts = sum k_t k_s D_st      M_ts = sum q_t k_s D_st
//
//   p_t = (G_t k_t)^T S + sum_s<t N_ts u_s         r_t = (G_t q_t)^T S + sum_s<t M_ts u_s
//   u_t = beta_t v_t - beta_t p_t                  o_t = r_t + (q_t . k_t) u_t
//   S   = G_T S + sum_s (D_sT k_s) u_s^T
//
// The state is read twice and written once whatever the number of tokens. Decays are multiplied, never
// divided by: any gate will do.

#if defined(FLA_BACKENDS_CPU_SIMD_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_FOLD_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_FOLD_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_FOLD_INL_H_
#endif

#include "backends/cpu_simd/step-inl.h"
#include "backends/cpu_simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr int kFolded = 4;                           // tokens at most
constexpr int kFoldedRead = kTileRows == 4 ? 1 : 2;  // vectors of columns; 2 * kFolded accumulators each
constexpr int kFoldedWrite = kLanes == 16 ? 2 : 4;   // with kFolded vectors of u each

struct Fold {
  float* decay;                    // G_T, [K]
  float *probes, *queries, *keys;  // G_t k_t, G_t q_t and D_sT k_s, [K][kFolded]
  float* block;                    // [K][kFoldedWrite * kLanes]: a block of columns, row after row
  float N[kFolded][kFolded], M[kFolded][kFolded];
  float beta[kFolded], weight[kFolded];
};

// Whether products of a token's vectors with those of others stay far inside f32's range; steps one by one
// form none.
HWY_INLINE bool can_fold(DF d, const Step& step, std::size_t padded) {
  constexpr float kLeast = 0x1p-40f, kMost = 0x1p40f;
  for (const float* row : {step.key, step.probe, step.decayed_q}) {
    VF most = hn::Zero(d);
    for (std::size_t c = 0; c < padded; c += kLanes) most = hn::Max(most, hn::Abs(hn::Load(d, row + c)));
    const float size = max_lanes(d, most);
    if (!(size == 0 || (size >= kLeast && size <= kMost))) return false;
  }
  return true;
}

// How many tokens go together. Whether one joins those before it depends on nothing behind it, and so do the
// bits of its output.
HWY_INLINE int tokens_to_fold(DF d, const Step* steps, int count, std::size_t padded) {
  const int most = std::min(count, kFolded);
  int together = 0;
  while (together < most && can_fold(d, steps[together], padded)) ++together;
  return std::max(together, 1);
}

template <int kTokens>
HWY_NOINLINE void fold(DF d, const Step* steps, std::size_t padded, Fold& f) {
  VF n[kTokens][kTokens], m[kTokens][kTokens];
  FLA_UNROLL for (int t = 0; t < kTokens; ++t) {
    FLA_UNROLL for (int s = 0; s < t; ++s) n[t][s] = m[t][s] = hn::Zero(d);
  }
  for (std::size_t c = 0; c < padded; c += kLanes) {
    VF decays = hn::Set(d, 1.f), probes[kFolded], queries[kFolded], keys[kFolded];
    FLA_UNROLL for (int t = 0; t < kFolded; ++t) probes[t] = queries[t] = keys[t] = hn::Zero(d);
    FLA_UNROLL for (int t = 0; t < kTokens; ++t) {
      const Step& step = steps[t];
      const VF decay = hn::Load(d, step.decay + c), probe = hn::Load(d, step.probe + c),
               query = hn::Load(d, step.decayed_q + c);
      probes[t] = hn::Mul(decays, probe);
      queries[t] = hn::Mul(decays, query);
      decays = hn::Mul(decays, decay);
      FLA_UNROLL for (int s = 0; s < t; ++s) {
        n[t][s] = hn::MulAdd(probe, keys[s], n[t][s]);
        m[t][s] = hn::MulAdd(query, keys[s], m[t][s]);
        keys[s] = hn::Mul(keys[s], decay);
      }
      keys[t] = hn::Load(d, step.key + c);
    }
    hn::Store(decays, d, f.decay + c);
    hn::StoreInterleaved4(probes[0], probes[1], probes[2], probes[3], d, f.probes + c * kFolded);
    hn::StoreInterleaved4(queries[0], queries[1], queries[2], queries[3], d, f.queries + c * kFolded);
    hn::StoreInterleaved4(keys[0], keys[1], keys[2], keys[3], d, f.keys + c * kFolded);
  }
  FLA_UNROLL for (int t = 0; t < kTokens; ++t) {
    f.beta[t] = steps[t].beta, f.weight[t] = steps[t].weight, f.M[t][t] = steps[t].qk;
    FLA_UNROLL for (int s = 0; s < t; ++s) f.N[t][s] = sum_lanes(d, n[t][s]),
                                           f.M[t][s] = sum_lanes(d, m[t][s]);
  }
}

// From the sums of columns, their u and outputs.
template <int kTokens>
HWY_INLINE void substitute(DF d, const Fold& f, const VF (&v)[kTokens], VF (&p)[kTokens], VF (&r)[kTokens],
                           VF (&u)[kTokens]) {
  FLA_UNROLL for (int t = 0; t < kTokens; ++t) {
    FLA_UNROLL for (int s = 0; s < t; ++s) {
      p[t] = hn::MulAdd(hn::Set(d, f.N[t][s]), u[s], p[t]);
      r[t] = hn::MulAdd(hn::Set(d, f.M[t][s]), u[s], r[t]);
    }
    u[t] = hn::NegMulAdd(hn::Set(d, f.beta[t]), p[t], hn::Mul(hn::Set(d, f.weight[t]), v[t]));
    r[t] = hn::MulAdd(hn::Set(d, f.M[t][t]), u[t], r[t]);
  }
}

template <int kTokens, int kVectors, int kToken = 0>
HWY_INLINE void add_folded(DF d, const Quad& x, const Quad& q, const VF (&s)[kVectors],
                           VF (&p)[kTokens][kVectors], VF (&r)[kTokens][kVectors]) {
  if constexpr (kToken < kTokens) {
    const VF xc = broadcast<kToken>(d, x), qc = broadcast<kToken>(d, q);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
      p[kToken][n] = hn::MulAdd(s[n], xc, p[kToken][n]);
      r[kToken][n] = hn::MulAdd(s[n], qc, r[kToken][n]);
    }
    add_folded<kTokens, kVectors, kToken + 1>(d, x, q, s, p, r);
  }
}

// The block that is read next, to L1.
struct Rows {
  const float* first;  // null: none
  std::size_t row;

  HWY_INLINE void touch(std::size_t k) const {
    if (first == nullptr) return;
    FLA_UNROLL for (int i = 0; i < kFoldedWrite * kLanes; i += 16) {
      __builtin_prefetch(first + k * row + static_cast<std::size_t>(i), 0, 3);
    }
  }
};

// Passes over a block's rows: some that read, one that writes. The lines that are brought for later are dealt
// out to all of them: all at once, they would hold up the first pass, and none would be on its way during the
// others.
constexpr int kFoldedPasses = kFoldedWrite / kFoldedRead + 1;
template <int kPass>
HWY_INLINE void touch_share(Ahead& lines) {
  constexpr int kAll = std::max(kFoldedWrite * kLanes / 16, 1);  // a row
  constexpr int kLeft = kFoldedPasses - kPass;  // the first ones have more: nothing may have to be written
  constexpr int kShare = kAll * kLeft / kFoldedPasses - kAll * (kLeft - 1) / kFoldedPasses;
  if constexpr (kShare > 0) lines.touch<16 * kShare>();
}

// First pass over kVectors vectors of columns: writes u, [kTokens][stride], and the outputs, and keeps
// kCopied vectors of each row in a block. Rows of a state lie a power of two apart and would drive each other
// out of L1 until the next pass.
template <int kTokens, int kVectors, int kCopied, int kPass>
HWY_INLINE void read_folded(DF d, const Fold& f, const float* HWY_RESTRICT state, std::size_t row,
                            std::size_t channels, const float* const* v, float* const* o, std::size_t column,
                            float* HWY_RESTRICT u, std::size_t stride, const Rows& soon, Ahead& ahead) {
  VF p[kTokens][kVectors], r[kTokens][kVectors];
  FLA_UNROLL for (int t = 0; t < kTokens; ++t) {
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) p[t][n] = r[t][n] = hn::Zero(d);
  }
  Ahead lines = ahead;
  for (std::size_t k = 0; k < channels; ++k) {
    if constexpr (kPass >= 0) touch_share<kPass>(lines);
    soon.touch(k);
    VF s[kVectors];
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) s[n] = hn::LoadU(d, state + k * row + n * kLanes);
    if constexpr (kCopied > 0) {
      float* const block = f.block + k * (kCopied * kLanes);
      FLA_UNROLL for (int n = 0; n < kVectors; ++n) hn::Store(s[n], d, block + n * kLanes);
      FLA_UNROLL for (int n = kVectors; n < kCopied; ++n) {
        hn::Store(hn::LoadU(d, state + k * row + n * kLanes), d, block + n * kLanes);
      }
    }
    add_folded<kTokens, kVectors>(d, load_quad(d, f.probes + k * kFolded),
                                  load_quad(d, f.queries + k * kFolded), s, p, r);
  }
  ahead = lines;
  FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
    const std::size_t at = column + static_cast<std::size_t>(n) * kLanes;
    VF vt[kTokens], pt[kTokens], rt[kTokens], ut[kTokens];
    FLA_UNROLL for (int t = 0; t < kTokens; ++t) {
      vt[t] = hn::LoadU(d, v[t] + at), pt[t] = p[t][n], rt[t] = r[t][n];
    }
    substitute<kTokens>(d, f, vt, pt, rt, ut);
    FLA_UNROLL for (int t = 0; t < kTokens; ++t) {
      hn::StoreU(rt[t], d, o[t] + at);
      hn::Store(ut[t], d, u + static_cast<std::size_t>(t) * stride + static_cast<std::size_t>(n) * kLanes);
    }
  }
}

template <int kTokens, int kVectors, int kToken = 0>
HWY_INLINE void add_outer_folded(DF d, const Quad& keys, const VF (&u)[kTokens][kVectors],
                                 VF (&s)[kVectors]) {
  if constexpr (kToken < kTokens) {
    const VF key = broadcast<kToken>(d, keys);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) s[n] = hn::MulAdd(key, u[kToken][n], s[n]);
    add_outer_folded<kTokens, kVectors, kToken + 1>(d, keys, u, s);
  }
}

// Second pass; `to` may be `from`.
template <int kTokens, int kVectors>
HWY_INLINE void write_folded(DF d, const Fold& f, const float* from, std::size_t from_row, float* to,
                             std::size_t row, std::size_t channels, const float* HWY_RESTRICT u,
                             std::size_t stride, Ahead& ahead) {
  VF ut[kTokens][kVectors];
  FLA_UNROLL for (int t = 0; t < kTokens; ++t) {
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
      ut[t][n] = hn::Load(d, u + static_cast<std::size_t>(t) * stride + static_cast<std::size_t>(n) * kLanes);
    }
  }
  Ahead lines = ahead;
  for (std::size_t k = 0; k < channels; ++k) {
    if constexpr (kVectors == kFoldedWrite) touch_share<kFoldedPasses - 1>(lines);
    const VF decay = hn::Set(d, f.decay[k]);
    VF s[kVectors];
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
      s[n] = hn::Mul(decay, hn::LoadU(d, from + k * from_row + n * kLanes));
    }
    add_outer_folded<kTokens, kVectors>(d, load_quad(d, f.keys + k * kFolded), ut, s);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) hn::StoreU(s[n], d, to + k * row + n * kLanes);
  }
  ahead = lines;
}

// The last columns, fewer than a vector, with the sums of whole ones.
template <int kTokens>
HWY_INLINE void fold_tail(DF d, const Fold& f, const float* from, float* to, std::size_t row,
                          std::size_t channels, const float* const* v, float* const* o, std::size_t column,
                          std::size_t present) {
  VF p[kTokens][1], r[kTokens][1], vt[kTokens], pt[kTokens], rt[kTokens], ut[kTokens];
  FLA_UNROLL for (int t = 0; t < kTokens; ++t) p[t][0] = r[t][0] = hn::Zero(d);
  for (std::size_t k = 0; k < channels; ++k) {
    const VF s[1] = {load_first(d, from + k * row, present)};
    add_folded<kTokens, 1>(d, load_quad(d, f.probes + k * kFolded), load_quad(d, f.queries + k * kFolded), s,
                           p, r);
  }
  FLA_UNROLL for (int t = 0; t < kTokens; ++t) {
    vt[t] = load_first(d, v[t] + column, present), pt[t] = p[t][0], rt[t] = r[t][0];
  }
  substitute<kTokens>(d, f, vt, pt, rt, ut);
  FLA_UNROLL for (int t = 0; t < kTokens; ++t) store_first(rt[t], d, o[t] + column, present);
  if (to == nullptr) return;
  VF u[kTokens][1];
  FLA_UNROLL for (int t = 0; t < kTokens; ++t) u[t][0] = ut[t];
  for (std::size_t k = 0; k < channels; ++k) {
    VF s[1] = {hn::Mul(hn::Set(d, f.decay[k]), load_first(d, from + k * row, present))};
    add_outer_folded<kTokens, 1>(d, load_quad(d, f.keys + k * kFolded), u, s);
    store_first(s[0], d, to + k * row, present);
  }
}

// Columns [first, last) of a state [K, V]. `following`: where the first of the next one are, if known.
template <int kTokens>
HWY_NOINLINE void step_folded(DF d, const Fold& f, const float* from, float* to, std::size_t V, std::size_t K,
                              const float* const* v, float* const* o, std::size_t first, std::size_t last,
                              const float* following, Ahead& ahead) {
  constexpr std::size_t kStride = kFoldedWrite * kLanes;
  HWY_ALIGN_MAX float u[kTokens * kStride];
  std::size_t c = first;
  for (; c + kStride <= last; c += kStride) {
    read_folded<kTokens, kFoldedRead, kFoldedWrite, 0>(d, f, from + c, V, K, v, o, c, u, kStride, {}, ahead);
    const float* const next = c + 2 * kStride <= last ? from + c + kStride : following;
    const auto read = [&]<int kPass>(std::integral_constant<int, kPass>) HWY_ATTR {
      constexpr std::size_t at = static_cast<std::size_t>(kPass) * kFoldedRead * kLanes;
      read_folded<kTokens, kFoldedRead, 0, kPass>(d, f, f.block + at, kStride, K, v, o, c + at, u + at,
                                                  kStride, {next, V}, ahead);
    };
    if constexpr (kFoldedPasses > 2) read(std::integral_constant<int, 1>{});
    if constexpr (kFoldedPasses > 3) {
      read(std::integral_constant<int, 2>{});
      read(std::integral_constant<int, 3>{});
    }
    if (to) write_folded<kTokens, kFoldedWrite>(d, f, f.block, kStride, to + c, V, K, u, kStride, ahead);
  }
  for (; c + kLanes <= last; c += kLanes) {
    read_folded<kTokens, 1, 0, -1>(d, f, from + c, V, K, v, o, c, u, kStride, {}, ahead);
    if (to) write_folded<kTokens, 1>(d, f, from + c, V, to + c, V, K, u, kStride, ahead);
  }
  if (c < last) fold_tail<kTokens>(d, f, from + c, to ? to + c : nullptr, V, K, v, o, c, last - c);
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
