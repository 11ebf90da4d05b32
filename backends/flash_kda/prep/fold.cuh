#pragma once

#include "backends/flash_kda/barriers.cuh"
#include "backends/flash_kda/prep/shared.cuh"
#include "backends/flash_kda/probe.cuh"
#include "backends/flash_kda/range.cuh"

/// Step 6: the folds, which take T2 and M out of the chain of states. From U = T2 (V - K~ S) of a chunk
/// follows
///     U  = T2 Y                                                    with  Y = V - K~ S
///     O  = Q~ S + M U = Q~ S + M T2 (V - K~ S) = Q^ S + B V        with  B = M T2, Q^ = Q~ - B K~
///     S' = diag(gamma) S + Kr^T U = diag(gamma) S + K^r^T Y        with  K^r = T2^T Kr
/// so that the packet is kt = K~, qh = 16 Q^, kr = K^r, b = B. M and Q~ are times 16 here, and so is M T2
/// until it is stored.
namespace fla::flash_kda {

/// F0: K^r = T2^T Kr, to come over Kr, 64 channels at a time, as below. meanwhile(): while products are on
/// their way. Then the other warpgroup may write over T2.
template <class Meanwhile>
FLA_DEVICE void prep_fold_keys(Smem smem, std::uint32_t w4, std::uint32_t lane, Probe& probe,
                               Meanwhile&& meanwhile) {
  const std::uint64_t da = k_major(smem + Prep::t2t);
#pragma unroll 1
  for (std::uint32_t half = 0; half < 2; ++half) {
    const Smem kr = smem + Packet::kr + half * kTile;
    const std::uint64_t db = mn_major(kr);
    float d[32];
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) wgmma_ss<64, Half16::f16, 1>(d, da + k_step(kk), db + mn_step(kk), kk > 0);
    wgmma_commit();
    if (half == 0) meanwhile();
    wgmma_wait<0>();
    keep(d);
    probe.mark(5);
    if (half == 1) barrier_arrive(Barrier::t2_read, Prep::threads);
    barrier(Barrier::kr_read, 128);  // all four warps have read this half of Kr
    probe.mark(6);
    const Smem at = fragment_a(kr, 16 * w4, lane);
#pragma unroll
    for (int j = 0; j < 4; ++j) store_square(at ^ (j << 5), d + 8 * j);
  }
}

/// F1: B = M T2, then Q^ = Q~ - B K~, to come over Q~ (M is given in m), 64 channels at a time: with all 128,
/// ptxas has no registers to spare. unit: 2^e_b (range.cuh), which T2 has, and so has B.
FLA_DEVICE void prep_fold_queries(Smem smem, std::uint32_t w4, std::uint32_t lane, std::uint32_t (&m)[16],
                                  float unit, Probe& probe) {
  std::uint32_t b[16];
  {
    float mt[32];
    const std::uint64_t db = k_major(smem + Prep::t2t);
    keep(m);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) wgmma_rs<64, 1, 0>(mt, m + 4 * kk, db + k_step(kk), kk > 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(mt);
    keep(m);
#pragma unroll
    for (int i = 0; i < 16; ++i) b[i] = pack_f16(mt[2 * i], mt[2 * i + 1]);
  }
#pragma unroll 1
  for (std::uint32_t half = 0; half < 2; ++half) {
    const Smem at = fragment_a(smem + Packet::qh + half * kTile, 16 * w4, lane);
    float d[32];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      std::uint32_t q[4];
      ldmatrix(q, at ^ (j << 5));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const F2 x = unpack_f16(q[i]);
        d[8 * j + 2 * i] = x.x, d[8 * j + 2 * i + 1] = x.y;
      }
    }
    if (unit != 1.0f) {
      rarely();
      times_power(d, exponent_of(f32_bits(unit)));
    }
    const std::uint64_t db = mn_major(smem + Packet::kt + half * kTile);
    keep(d);
    keep(b);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) wgmma_rs<64, -1, 1>(d, b + 4 * kk, db + mn_step(kk), 1);
    wgmma_commit();
    wgmma_wait<0>();
    keep(d);
    keep(b);
    if (unit != 1.0f) {
      rarely();
      times_power(d, -exponent_of(f32_bits(unit)));
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) store_square(at ^ (j << 5), d + 8 * j);
  }
  probe.mark(5);
  barrier(Barrier::t2_read, Prep::threads);  // nobody reads T2 any more
  probe.mark(6);
  const Smem to_b = fragment_a(smem + Packet::b, 16 * w4, lane);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    stmatrix(to_b ^ (j << 5), scale_f16(b[4 * j], 0.0625f), scale_f16(b[4 * j + 1], 0.0625f),
             scale_f16(b[4 * j + 2], 0.0625f), scale_f16(b[4 * j + 3], 0.0625f));
}

}  // namespace fla::flash_kda
