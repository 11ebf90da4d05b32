// The pairs of a chunk's tokens in the backward kernel, and their gradients. Included once for every SIMD
// target.
//
// With P_ij = D(i, j) k_j, where D(i, j) is the product of the decays a_(j+1) … a_i of a channel,
//
//   M_ij = q_i^T P_ij (i >= j)                  L_ij = -beta_i k_i^T P_ij (i > j)
//
// and with x_ij = dM_ij q_i - dL_ij beta_i k_i what P_ij gets from its own pair, all of its gradient is
//
//   dP_ij = x_ij + a_(i+1) dP_(i+1)j            dk_j += dP_jj            dg_i += sum over j < i of P_ij dP_ij
//
// Each decay is the product of its tokens' factors and each sum is one of its own: nothing is divided by a
// decay and nothing that was added is taken away, so any gate will do.
//
// Four earlier tokens j and two vectors of channels at a time: P_ij or dP_ij are in registers while i goes
// on.

#if defined(FLA_BACKENDS_CPU_SIMD_GRADIENT_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_GRADIENT_PAIRS_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_GRADIENT_PAIRS_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_GRADIENT_PAIRS_INL_H_
#endif

#include <cstring>

#include "backends/cpu_simd/gradient_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr int kRun = 4;  // of earlier tokens
static_assert(kTokens % kRun == 0);

// The tokens of a chunk, [kTokens][row] each. Those behind the last token are not read.
struct TokenRows {
  const float *q, *k, *l, *decay;  // l: -beta k
  std::size_t row;
  int count;

  const float* at(const float* rows, int i) const { return rows + static_cast<std::size_t>(i) * row; }
};

using Pairs = VF[kRun][2];
using Two = VF[2];

HWY_INLINE void load_two(DF d, const float* from, Two& to) {
  to[0] = hn::Load(d, from);
  to[1] = hn::Load(d, from + kLanes);
}
HWY_INLINE void store_two(DF d, const Two& from, float* to) {
  hn::Store(from[0], d, to);
  hn::Store(from[1], d, to + kLanes);
}

HWY_INLINE void clear(DF d, Pairs& pairs) {
  FLA_UNROLL for (int j = 0; j < kRun; ++j) pairs[j][0] = pairs[j][1] = hn::Zero(d);
}

// ---- M and L

// Where sums over channels are gathered: a vector for each pair.
struct PairSums {
  float *M, *L;  // [kTokens][kTokens][kLanes]

  static constexpr std::size_t kFloats = std::size_t{kTokens} * kTokens * kLanes;
  static std::size_t at(int i, int j) {
    return (static_cast<std::size_t>(i) * kTokens + static_cast<std::size_t>(j)) * kLanes;
  }
};

HWY_INLINE void add_to_sum(DF d, const Two& row, const Two& pair, float* sum) {
  hn::Store(hn::MulAdd(row[1], pair[1], hn::MulAdd(row[0], pair[0], hn::Load(d, sum))), d, sum);
}

// Token i with the first kLive tokens of the run.
template <int kLive, bool kDelta>
HWY_INLINE void sum_pairs_of(DF d, const TokenRows& t, const PairSums& sums, int i, int run, std::size_t c,
                             Pairs& P) {
  Two a, q, k;
  load_two(d, t.at(t.decay, i) + c, a);
  load_two(d, t.at(t.q, i) + c, q);
  if constexpr (kDelta) load_two(d, t.at(t.l, i) + c, k);
  FLA_UNROLL for (int j = 0; j < kLive; ++j) {
    P[j][0] = hn::Mul(P[j][0], a[0]);
    P[j][1] = hn::Mul(P[j][1], a[1]);
    const std::size_t at = PairSums::at(i, run + j);
    add_to_sum(d, q, P[j], sums.M + at);
    if constexpr (kDelta) add_to_sum(d, k, P[j], sums.L + at);
  }
  if constexpr (kLive < kRun) {
    load_two(d, t.at(t.k, i) + c, P[kLive]);
    add_to_sum(d, q, P[kLive], sums.M + PairSums::at(i, i));
  }
}

// M and L; zeros above the diagonal. `turned` is L with rows and columns exchanged.
template <bool kDelta>
HWY_NOINLINE void pair_up(DF d, const TokenRows& t, std::size_t channels, const PairSums& sums,
                          float* HWY_RESTRICT M, float* HWY_RESTRICT L, float* HWY_RESTRICT turned) {
  const int count = t.count;
  const auto used = static_cast<std::size_t>(count) * kTokens * kLanes;
  std::memset(sums.M, 0, used * sizeof(float));
  if constexpr (kDelta) std::memset(sums.L, 0, used * sizeof(float));
  for (std::size_t c = 0; c < channels; c += 2 * kLanes) {
    for (int run = 0; run < count; run += kRun) {
      Pairs P;
      clear(d, P);
      sum_pairs_of<0, kDelta>(d, t, sums, run, run, c, P);
      if (run + 1 < count) sum_pairs_of<1, kDelta>(d, t, sums, run + 1, run, c, P);
      if (run + 2 < count) sum_pairs_of<2, kDelta>(d, t, sums, run + 2, run, c, P);
      if (run + 3 < count) sum_pairs_of<3, kDelta>(d, t, sums, run + 3, run, c, P);
      for (int i = run + kRun; i < count; ++i) sum_pairs_of<kRun, kDelta>(d, t, sums, i, run, c, P);
    }
  }
  constexpr std::size_t kSize = kTokens * kTokens;
  for (float* matrix : {M, L, turned}) std::memset(matrix, 0, kSize * sizeof(float));
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j <= i; ++j) {
      const std::size_t at = PairSums::at(i, j);
      M[i * kTokens + j] = sum_lanes(d, hn::Load(d, sums.M + at));
      if (kDelta && j < i)
        turned[j * kTokens + i] = L[i * kTokens + j] = sum_lanes(d, hn::Load(d, sums.L + at));
    }
  }
}

// ---- Their gradients

// Rows of gradients [kTokens][row], which are added to.
struct PairGradients {
  float *dq, *dk, *dg, *dl;
};

// A row of the chunk's P, for one run and two vectors of channels: [kTokens][kRun][2].
HWY_INLINE float* pairs_at(float* P, int i, int j) {
  return P + static_cast<std::size_t>((i * kRun + j) * 2 * kLanes);
}

template <int kLane, int kLive>
HWY_INLINE void add_scaled_pairs(DF d, const Pairs& P, const Quad& factors, Two& sum) {
  if constexpr (kLane < kLive) {
    const VF factor = broadcast<kLane>(d, factors);
    sum[0] = hn::MulAdd(P[kLane][0], factor, sum[0]);
    sum[1] = hn::MulAdd(P[kLane][1], factor, sum[1]);
    add_scaled_pairs<kLane + 1, kLive>(d, P, factors, sum);
  }
}

// P_ij; dq_i and dl_i of the pairs of token i with the first kLive tokens of the run, and with itself.
template <int kLive, bool kDelta>
HWY_INLINE void go_on(DF d, const TokenRows& t, const float* HWY_RESTRICT dM, const float* HWY_RESTRICT dL,
                      int i, int run, std::size_t c, const PairGradients& to, Pairs& P,
                      float* HWY_RESTRICT kept) {
  constexpr int kWithItself = kLive < kRun ? kLive + 1 : kRun;
  Two sum;
  if constexpr (kLive > 0) {
    Two a;
    load_two(d, t.at(t.decay, i) + c, a);
    FLA_UNROLL for (int j = 0; j < kLive; ++j) {
      P[j][0] = hn::Mul(P[j][0], a[0]);
      P[j][1] = hn::Mul(P[j][1], a[1]);
      store_two(d, P[j], pairs_at(kept, i, j));
    }
    if constexpr (kDelta) {
      float* dl = to.dl + static_cast<std::size_t>(i) * t.row + c;
      load_two(d, dl, sum);
      add_scaled_pairs<0, kLive>(d, P, load_quad(d, dL + i * kTokens + run), sum);
      store_two(d, sum, dl);
    }
  }
  if constexpr (kLive < kRun) load_two(d, t.at(t.k, i) + c, P[kLive]);
  float* dq = to.dq + static_cast<std::size_t>(i) * t.row + c;
  load_two(d, dq, sum);
  add_scaled_pairs<0, kWithItself>(d, P, load_quad(d, dM + i * kTokens + run), sum);
  store_two(d, sum, dq);
}

template <int kLane, int kLive, bool kDelta>
HWY_INLINE void add_gradients(DF d, const Quad& dM, const Quad& dL, const Two& q, const Two& k,
                              const Two& next, Pairs& dP) {
  if constexpr (kLane < kLive) {
    FLA_UNROLL for (int n = 0; n < 2; ++n) {
      VF x = hn::Mul(q[n], broadcast<kLane>(d, dM));
      if constexpr (kDelta) x = hn::MulAdd(k[n], broadcast<kLane>(d, dL), x);
      dP[kLane][n] = hn::MulAdd(dP[kLane][n], next[n], x);
    }
    add_gradients<kLane + 1, kLive, kDelta>(d, dM, dL, q, k, next, dP);
  }
}

// dP_ij of the same pairs, from dP_(i+1)j; dg_i and dk_i. `next` is the decay of token i + 1.
template <int kLive, bool kDelta>
HWY_INLINE void go_back(DF d, const TokenRows& t, const float* HWY_RESTRICT dM, const float* HWY_RESTRICT dL,
                        int i, int run, std::size_t c, const float* HWY_RESTRICT next,
                        const PairGradients& to, Pairs& dP, float* HWY_RESTRICT kept) {
  Two q, k, a;
  load_two(d, t.at(t.q, i) + c, q);
  if constexpr (kDelta) load_two(d, t.at(t.l, i) + c, k);
  load_two(d, next + c, a);
  const Quad dM_quad = load_quad(d, dM + i * kTokens + run);
  if constexpr (kLive > 0) {
    const Quad dL_quad = load_quad(d, dL + i * kTokens + run);
    add_gradients<0, kLive, kDelta>(d, dM_quad, dL_quad, q, k, a, dP);
    float* dg = to.dg + static_cast<std::size_t>(i) * t.row + c;
    Two sum;
    load_two(d, dg, sum);
    FLA_UNROLL for (int j = 0; j < kLive; ++j) {
      Two P;
      load_two(d, pairs_at(kept, i, j), P);
      sum[0] = hn::MulAdd(P[0], dP[j][0], sum[0]);
      sum[1] = hn::MulAdd(P[1], dP[j][1], sum[1]);
    }
    store_two(d, sum, dg);
  }
  if constexpr (kLive < kRun) {
    const VF factor = broadcast<kLive>(d, dM_quad);
    float* dk = to.dk + static_cast<std::size_t>(i) * t.row + c;
    FLA_UNROLL for (int n = 0; n < 2; ++n) {
      const VF all = hn::MulAdd(dP[kLive][n], a[n], hn::Mul(q[n], factor));
      hn::Store(hn::Add(hn::Load(d, dk + n * kLanes), all), d, dk + n * kLanes);
    }
  }
}

// Adds the gradients of the chunk's pairs, dM and dL [kTokens][kTokens], for two vectors of channels. `zeros`
// is a row, `kept` room for kTokens * kRun * 2 vectors.
template <bool kDelta>
HWY_NOINLINE void add_pair_gradients(DF d, const TokenRows& t, const float* HWY_RESTRICT dM,
                                     const float* HWY_RESTRICT dL, std::size_t c, const float* zeros,
                                     const PairGradients& to, float* HWY_RESTRICT kept) {
  const int count = t.count;
  for (int run = 0; run < count; run += kRun) {
    Pairs P;
    clear(d, P);
    const int behind = run + kRun;
    go_on<0, kDelta>(d, t, dM, dL, run, run, c, to, P, kept);
    if (run + 1 < count) go_on<1, kDelta>(d, t, dM, dL, run + 1, run, c, to, P, kept);
    if (run + 2 < count) go_on<2, kDelta>(d, t, dM, dL, run + 2, run, c, to, P, kept);
    if (run + 3 < count) go_on<3, kDelta>(d, t, dM, dL, run + 3, run, c, to, P, kept);
    for (int i = behind; i < count; ++i) go_on<kRun, kDelta>(d, t, dM, dL, i, run, c, to, P, kept);

    Pairs dP;
    clear(d, dP);
    const auto next = [&](int i) HWY_ATTR { return i + 1 < count ? t.at(t.decay, i + 1) : zeros; };
    for (int i = count - 1; i >= behind; --i)
      go_back<kRun, kDelta>(d, t, dM, dL, i, run, c, next(i), to, dP, kept);
    if (run + 3 < count) go_back<3, kDelta>(d, t, dM, dL, run + 3, run, c, next(run + 3), to, dP, kept);
    if (run + 2 < count) go_back<2, kDelta>(d, t, dM, dL, run + 2, run, c, next(run + 2), to, dP, kept);
    if (run + 1 < count) go_back<1, kDelta>(d, t, dM, dL, run + 1, run, c, next(run + 1), to, dP, kept);
    go_back<0, kDelta>(d, t, dM, dL, run, run, c, next(run), to, dP, kept);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
