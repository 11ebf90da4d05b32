#pragma once

#include "backends/flash_kda/prep/shared.cuh"

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
