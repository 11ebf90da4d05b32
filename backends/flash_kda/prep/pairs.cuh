#pragma once

#include "backends/flash_kda/prep/votes.cuh"

/// Steps 4 and 5: products of rows and columns are M and N; masked and times -beta, they are what the solve
/// and the folds read.
namespace fla::flash_kda {

/// Step 4, of one warpgroup: its 64 rows at a times n columns at b. steep: they are bf16.
template <int n>
FLA_DEVICE void prep_pairs(Smem a, Smem b, bool steep, float (&d)[n / 2]) {
  const std::uint64_t da = k_major(a), db = k_major(b);
  const auto multiply = [&]<Half16 pairs> {
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 8; ++kk)
      wgmma_ss<n, pairs, 0>(d, da + k_step(kk), db + k_step(kk, n * kTileRow), kk > 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(d);
  };
  if (steep)
    multiply.template operator()<Half16::bf16>();
  else
    multiply.template operator()<Half16::f16>();
}

/// The same of raw pairs: with the 32 keys of the rows' own block and of the block before.
template <Half16 type>
FLA_DEVICE void prep_raw_pairs(Smem at, std::uint32_t wg, float (&own)[16], float (&before)[16]) {
  const std::uint64_t da = k_major(at + (wg == 0 ? Prep::rows0 : Prep::rows1)),
                      db[2] = {k_major(at + Prep::k0), k_major(at + Prep::k1)};
  wgmma_fence();
#pragma unroll
  for (int kk = 0; kk < 8; ++kk) wgmma_ss<32, type, 0>(before, da + k_step(kk), db[0] + k_step(kk), kk > 0);
#pragma unroll
  for (int kk = 0; kk < 8; ++kk) wgmma_ss<32, type, 0>(own, da + k_step(kk), db[1] + k_step(kk), kk > 0);
  wgmma_commit();
  wgmma_wait<0>();
  keep(own);
  keep(before);
  if (wg == 0) {
#pragma unroll
    for (int i = 0; i < 16; ++i) own[i] = before[i], before[i] = 0;
  }
}
/// Rows 16 w to 16 w + 15 of raw products with the keys of a block, times the factors of both and
/// D(j -> i). of: of_key where the rows are keys. Above the diagonal there may be anything.
FLA_DEVICE void scale_raw_block(Smem factors, Smem logs, std::uint32_t of, std::uint32_t block,
                                std::uint32_t w, std::uint32_t lane, float (&d)[16]) {
  const std::uint32_t i = 16 * w + (lane >> 2), j = 32 * block + 2 * (lane & 3);
  const float of_rows[2] = {load_f32(factors + Prep::factors * i + of),
                            load_f32(factors + Prep::factors * (i + 8) + of)},
              log[2] = {load_f32(logs + 4 * i), load_f32(logs + 4 * (i + 8))};
#pragma unroll
  for (std::uint32_t n = 0; n < 4; ++n) {
    const F2 of_columns = load_f32x2(logs + 4 * (j + 8 * n));
    const F4 keys = load_f32x4(factors + Prep::factors * (j + 8 * n));
#pragma unroll
    for (std::uint32_t r = 0; r < 2;
         ++r) {  // one after the other: the factors' product may be next to nothing
      d[4 * n + 2 * r] = (d[4 * n + 2 * r] * of_rows[r]) * (keys.y * ex2(log[r] - of_columns.x));
      d[4 * n + 2 * r + 1] = (d[4 * n + 2 * r + 1] * of_rows[r]) * (keys.w * ex2(log[r] - of_columns.y));
    }
  }
}
FLA_DEVICE void scale_raw_pairs(Smem at, std::uint32_t turn, std::uint32_t of, std::uint32_t w,
                                std::uint32_t lane, float (&own)[16], float (&before)[16]) {
  const Smem factors = factors_of<GateKind::token>(at, turn), logs = logs_of(at, turn);
  scale_raw_block(factors, logs, of, w >> 1, w, lane, own);
  if (w >= 2) scale_raw_block(factors, logs, of, 0, w, lane, before);
}

/// Step 5: rows 16 w to 16 w + 15 of M, masked in their own block.
template <class Diagonal>
FLA_DEVICE void prep_mask(float (&own)[16], std::uint32_t w, std::uint32_t lane, Diagonal&& diagonal) {
  // column 8 i + 2 t + e stays if 8 i + e <= limit (+ 8 in the lower half)
  const int limit = int(16 * (w & 1) + (lane >> 2)) - int(2 * (lane & 3));
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int j = 8 * (i >> 2) - 8 * ((i >> 1) & 1) + (i & 1);
    own[i] = j == limit ? diagonal(i >> 1 & 1, own[i]) : j < limit ? own[i] : 0.0f;  // may be Inf, NaN
  }
}

/// What is known of M's diagonal, where nothing decays: of f16 inputs the products of queries and keys as
/// they came, but for odd magnitudes.
template <Half16 type>
struct DiagonalOfM {
  float products[2] = {0, 0};
  bool known = false;

  /// Of rows 16 w to 16 w + 15.
  FLA_DEVICE DiagonalOfM(Smem at, std::uint32_t votes, std::uint32_t w, std::uint32_t lane) {
    if constexpr (type == Half16::f16) {
#pragma unroll
      for (std::uint32_t r = 0; r < 2; ++r) {
        const std::uint32_t token = 16 * w + (lane >> 2) + 8 * r;
        const F2 factor = load_f32x2(at + Prep::factor + Prep::factors * token);
        products[r] = load_f32(at + Prep::dots + 4 * token) * factor.x * factor.y;
      }
      known = (votes & kOdd) == 0;
    }
  }
  FLA_DEVICE float operator()(int r, float x) const { return known ? products[r] : x; }
};

/// Step 5: rows 16 w to 16 w + 15 of -L from those of N, which is what the solve adds up. Of them only blocks
/// strictly below the diagonal are read: no mask.
FLA_DEVICE void prep_rows(Smem smem, F2 beta, float (&own)[16], float (&before)[16], std::uint32_t w,
                          std::uint32_t lane) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float b = (i & 2) == 0 ? -beta.x : -beta.y;
    own[i] *= b;
    before[i] *= b;
  }
  // Of the block on the diagonal, tiles 2 w and 2 w + 1, in f32 what the inverses of 8 x 8 read; only rows >
  // column.
  const bool odd = (w & 1) != 0;
  const Smem to = smem + Prep::diagonal + in_diagonal(16 * w + (lane >> 2), 2 * (lane & 3));
  store(to, odd ? own[8] : own[0]);
  store(to + Prep::column, odd ? own[9] : own[1]);
  store(to + Prep::square, odd ? own[14] : own[6]);
  store(to + Prep::square + Prep::column, odd ? own[15] : own[7]);
}

/// Rows 16 w to 16 w + 15 of M or -L: 32 columns of their own block, 32 of the other.
FLA_DEVICE void store_rows(Smem to, const float (&own)[16], const float (&other)[16], std::uint32_t w,
                           std::uint32_t lane) {
  const Smem at = fragment_a(to, 16 * w, lane) ^ ((w >> 1) * 64);
#pragma unroll
  for (int i = 0; i < 4; ++i) store_square(at ^ (32 * i), (i < 2 ? own : other) + 8 * (i & 1));
}

}  // namespace fla::flash_kda
