#pragma once

#include "backends/flash_kda/prep/shared.cuh"

/// Step 5: T = (I + L)^-1, and T2 = T diag(beta). Four warps have 16 rows each: first the 16 x 16 blocks on
/// the diagonal, 8 x 8 by substitution and one merge; then, block by block, the 16 columns below.
namespace fla::flash_kda {

/// The 16 x 16 blocks of T2^T below the diagonal: 32 threads a block, 192 in all.
FLA_DEVICE void zero_below(Smem smem, std::uint32_t tid) {
  const std::uint32_t i = tid >> 5;  // (1,0) (2,0) (2,1) (3,0) (3,1) (3,2)
  const std::uint32_t row = (0x333221u >> (4 * i)) & 15, column = (0x210100u >> (4 * i)) & 15;
  store(smem + Prep::t2t + swizzled(16 * row + ((tid >> 1) & 15), 32 * column + 16 * (tid & 1)),
        U4{0, 0, 0, 0});
}

/// Column lane / 4 of (I + L)^-1, of the 8 x 8 block at `from`.
FLA_DEVICE void prep_column(Smem from, std::uint32_t lane, float (&s)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i] = std::uint32_t(i) == lane >> 2 ? 1.0f : 0.0f;
#pragma unroll
  for (int j = 0; j < 7; ++j)
#pragma unroll
    for (int q = (j + 1) / 4; q < 2; ++q) {
      float v[4];
      load4(from + Prep::column * j + 16 * q, v);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (4 * q + e > j) s[4 * q + e] = fma_of(v[e], s[j], s[4 * q + e]);
    }
}
/// Elements 2 t and 2 t + 1.
FLA_DEVICE F2 prep_pick(const float (&s)[8], std::uint32_t t) {
  const bool odd = (t & 1) != 0, high = (t & 2) != 0;
  const F2 lo = odd ? F2{s[2], s[3]} : F2{s[0], s[1]}, hi = odd ? F2{s[6], s[7]} : F2{s[4], s[5]};
  return high ? hi : lo;
}

/// The inverse of the 16 x 16 block w on the diagonal, transposed, as an A operand; to tt, and times beta to
/// T2^T.
///     [A 0; C D]^-1 = [A^-1 0; -D^-1 C A^-1, D^-1]
FLA_DEVICE void prep_invert(Smem smem, F2 beta, std::uint32_t w, std::uint32_t lane, std::uint32_t (&a)[4]) {
  const Smem diagonal = smem + Prep::diagonal + 2 * Prep::square * w;
  float x[8], y[8];
  prep_column(diagonal, lane, x);
  prep_column(diagonal + Prep::square, lane, y);
  std::uint32_t l[4];
  ldmatrix(l, fragment_b(smem + Prep::l, 16 * w, lane) ^ (32 * w));
  const F2 first = prep_pick(x, lane & 3), last = prep_pick(y, lane & 3);
  a[0] = pack_f16(first.x, first.y), a[1] = 0, a[2] = 0, a[3] = pack_f16(last.x, last.y);
  float u[4] = {0, 0, 0, 0}, z[4] = {0, 0, 0, 0};
  const std::uint32_t upper[4] = {a[0], 0, 0, 0};
  mma<Half16::f16>(u, upper, l[2], 0);
  const std::uint32_t product[4] = {pack_f16(u[0], u[1]), 0, 0, 0};
  mma<Half16::f16>(z, product, transposed(a[3]), 0);
  a[2] = pack_f16(z[0], z[1]);
  stmatrix(fragment_a(smem + Prep::tt, 16 * w, lane) ^ (32 * w), a[0], a[1], a[2], a[3]);
  stmatrix(fragment_a(smem + Prep::t2t, 16 * w, lane) ^ (32 * w),
           pack_f16(beta.x * first.x, beta.x * first.y), 0, pack_f16(beta.x * z[0], beta.x * z[1]),
           pack_f16(beta.y * last.x, beta.y * last.y));
}

/// When all diagonal blocks are there: the blocks of T below block w, transposed, times beta to T2^T.
/// a: block w itself.
///     T_iw = -T_ii (sum over k from w to i - 1 of L_ik T_kw)
FLA_DEVICE void prep_below(Smem smem, F2 beta, std::uint32_t w, std::uint32_t lane, std::uint32_t (&a)[4]) {
  // Block w + 1 + i of rows. All loads come first: they do not pass stores.
  std::uint32_t l[3][3][4] = {}, t[3][4] = {};
  const Smem from_l = fragment_b(smem + Prep::l, 16 * (w + 1), lane),
             from_t = fragment_a(smem + Prep::tt, 16 * (w + 1), lane),
             to = fragment_a(smem + Prep::t2t, 16 * w, lane);
#pragma unroll
  for (std::uint32_t i = 0; i < 3; ++i)
    if (w + i < 3) {
#pragma unroll
      for (std::uint32_t k = 0; k <= i; ++k) ldmatrix(l[i][k], (from_l ^ (32 * (w + k))) + 16 * kTileRow * i);
      ldmatrix_trans(t[i], (from_t ^ (32 * (w + 1 + i))) + 16 * kTileRow * i);
    }
  float sum[3][2][4] = {};
#pragma unroll
  for (std::uint32_t k = 0; k < 3; ++k)
    if (w + k < 3) {
#pragma unroll
      for (std::uint32_t i = k; i < 3; ++i)
        if (i == k || w + i < 3) {
          mma<Half16::f16>(sum[i][0], a, l[i][k][0], l[i][k][1]);
          mma<Half16::f16>(sum[i][1], a, l[i][k][2], l[i][k][3]);
        }
      const auto& x = sum[k];
      const std::uint32_t product[4] = {pack_f16(x[0][0], x[0][1]), pack_f16(x[0][2], x[0][3]),
                                        pack_f16(x[1][0], x[1][1]), pack_f16(x[1][2], x[1][3])};
      float y[2][4] = {};
      mma<Half16::f16>(y[0], product, t[k][0], t[k][1]);
      mma<Half16::f16>(y[1], product, t[k][2], t[k][3]);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        a[2 * i] = pack_f16(y[i][0], y[i][1]), a[2 * i + 1] = pack_f16(y[i][2], y[i][3]);
      stmatrix(to ^ (32 * (w + 1 + k)), pack_f16(beta.x * y[0][0], beta.x * y[0][1]),
               pack_f16(beta.y * y[0][2], beta.y * y[0][3]), pack_f16(beta.x * y[1][0], beta.x * y[1][1]),
               pack_f16(beta.y * y[1][2], beta.y * y[1][3]));
    }
}

}  // namespace fla::flash_kda
