// The pairs of a chunk's tokens and their gradients (gradient_pairs-inl.h) where all channels have one gate:
// D(i, j) is a number, and
//
//   M_ij = D(i, j) q_i^T k_j            L_ij = -D(i, j) beta_i k_i^T k_j
//
// are products of rows. A pair's share in the gradient of every gate from token j + 1 to token i is
// dM_ij M_ij + dL_ij L_ij. Included once for every SIMD target.

#if defined(FLA_BACKENDS_CPU_SIMD_GRADIENT_TOKEN_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_GRADIENT_TOKEN_PAIRS_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_GRADIENT_TOKEN_PAIRS_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_GRADIENT_TOKEN_PAIRS_INL_H_
#endif

#include <cstring>

#include "backends/cpu_simd/gradient_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr std::size_t kPairs = kTokens * kTokens;

// 0 where D is 0, also for an infinite product.
HWY_INLINE float decayed(float product, float D) { return D == 0.f ? 0.f : product * D; }

// Pairs below the diagonal, and on it, times D(i, j); zeros elsewhere. `turned`: rows and columns exchanged.
HWY_INLINE void decay_pairs(const TokenRows& t, bool diagonal, float* HWY_RESTRICT pairs,
                            float* HWY_RESTRICT turned) {
  std::memset(turned, 0, kPairs * sizeof(float));
  for (int j = 0; j < t.count; ++j) {
    float D = 1.f;
    if (diagonal) turned[j * kTokens + j] = pairs[j * kTokens + j];
    for (int i = j + 1; i < t.count; ++i) {
      D *= t.at(t.decay, i)[0];
      turned[j * kTokens + i] = decayed(pairs[i * kTokens + j], D);
    }
  }
  for (int i = 0; i < kTokens; ++i) {
    for (int j = 0; j < kTokens; ++j) pairs[i * kTokens + j] = turned[j * kTokens + i];
  }
}

// pair_up; turned_M is room for a matrix.
template <bool kDelta>
HWY_NOINLINE void pair_up_tokens(DF d, const TokenRows& t, std::size_t channels, float* HWY_RESTRICT M,
                                 float* HWY_RESTRICT turned_M, float* HWY_RESTRICT L,
                                 float* HWY_RESTRICT turned_L) {
  const PanelRows k{t.k, kWidth, t.row};
  dot_lower(d, {t.q, kWidth, t.row}, k, channels / kWidth, t.count, M);
  decay_pairs(t, true, M, turned_M);
  if constexpr (!kDelta) return;
  dot_lower(d, {t.l, kWidth, t.row}, k, channels / kWidth, t.count, L);
  decay_pairs(t, false, L, turned_L);
}

// Adds the pairs' shares to the gradients of the tokens' gates.
HWY_INLINE void add_shares(int count, const float* HWY_RESTRICT pairs, const float* HWY_RESTRICT gradients,
                           float* HWY_RESTRICT shares) {
  for (int j = 0; j < count; ++j) {
    float sum = 0.f;
    for (int i = count - 1; i > j; --i) {
      sum += pairs[i * kTokens + j] * gradients[i * kTokens + j];
      shares[i] += sum;
    }
  }
}

// to_i += sum over j <= i of pairs_ij rows_j, for kWidth channels. `turned` are the pairs.
HWY_INLINE void add_earlier(DF d, const float* HWY_RESTRICT turned, const float* HWY_RESTRICT rows,
                            std::size_t row, int first, float* HWY_RESTRICT to) {
  PanelTile tile;
  float* const at = to + static_cast<std::size_t>(first) * row;
  load_tile(d, tile, at, row);
  add_product(d, tile, turned + first, kTokens, rows, row, static_cast<std::size_t>(first));
  add_lower_product<0, kTileRows, kPanelVectors>(d, tile, turned + first * kTokens + first, kTokens,
                                                 rows + static_cast<std::size_t>(first) * row, row);
  store_tile(d, tile, at, row);
}

// to_j += sum over i >= j of pairs_ij rows_i, for kWidth channels.
HWY_INLINE void add_later(DF d, const float* HWY_RESTRICT pairs, const float* HWY_RESTRICT rows,
                          std::size_t row, int first, float* HWY_RESTRICT to) {
  const int next = first + kTileRows;
  PanelTile tile;
  float* const at = to + static_cast<std::size_t>(first) * row;
  load_tile(d, tile, at, row);
  add_later_rows<0>(d, tile, pairs + first * kTokens + first, rows + static_cast<std::size_t>(first) * row,
                    row);
  add_product(d, tile, pairs + next * kTokens + first, kTokens, rows + static_cast<std::size_t>(next) * row,
              row, static_cast<std::size_t>(kTokens - next));
  store_tile(d, tile, at, row);
}

// Adds the gradients of the pairs, as add_pair_gradients does, for all channels; those of gates are one
// number a token, `shares`. dM and dL become those of the products without their decays; `turned` is room for
// two matrices.
template <bool kDelta>
HWY_NOINLINE void add_token_pair_gradients(DF d, const TokenRows& t, std::size_t channels, const float* M,
                                           const float* L, float* dM, float* dL, float* turned,
                                           const PairGradients& to, float* shares) {
  float *const turned_M = turned, *const turned_L = turned + kPairs;
  std::memset(shares, 0, kTokens * sizeof(float));
  add_shares(t.count, M, dM, shares);
  decay_pairs(t, true, dM, turned_M);
  if constexpr (kDelta) {
    add_shares(t.count, L, dL, shares);
    decay_pairs(t, false, dL, turned_L);
  }
  for (std::size_t c = 0; c < channels; c += kWidth) {
    for (int first = 0; first < t.count; first += kTileRows) {
      add_earlier(d, turned_M, t.k + c, t.row, first, to.dq + c);
      add_later(d, dM, t.q + c, t.row, first, to.dk + c);
      if constexpr (!kDelta) continue;
      add_earlier(d, turned_L, t.k + c, t.row, first, to.dl + c);
      add_later(d, dL, t.l + c, t.row, first, to.dk + c);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
