#pragma once

#include "backends/flash_kda/prep/shared.cuh"

/// Step 3: keys and queries, scaled by products of decays, for the pairs and for the packet.
namespace fla::flash_kda {

/// With raw pairs: Q~, K~ and Kr of the thread's 8 tokens x 4 channels. The additive rule has no use for K~.
template <Half16 type, Rule rule>
FLA_DEVICE void prep_raw_copies(Smem smem, std::uint32_t turn, Smem x0, std::uint32_t warp,
                                std::uint32_t lane) {
  const std::uint32_t block = warp >> 2;
  const Smem logs = logs_of(smem, turn),
             factors = factors_of<GateKind::token>(smem, turn) + warp * (8 * Prep::factors);
  const float end = load_f32(logs + 4 * (kChunk - 1));
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float log[4];
    load4(logs + 4 * (8 * warp + 4 * half), log);
    U2 q_raw[4], k_raw[4];
    F2 f[4];  // of q, of k
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      f[j] = load_f32x2(factors + Prep::factors * (4 * half + j));
      q_raw[j] = load_u32x2(row_of(x0, 4 * half + j) + q_rows(block));
      k_raw[j] = load_u32x2(row_of(x0, 4 * half + j) + k_rows(block));
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const Smem at = row_of(x0, 4 * half + j);
      const float decay = ex2(log[j]), of_q = f[j].x * decay, of_k = f[j].y * decay,
                  of_r = f[j].y * ex2(end - log[j]);
      const float all_q[4] = {of_q, of_q, of_q, of_q}, all_k[4] = {of_k, of_k, of_k, of_k},
                  all_r[4] = {of_r, of_r, of_r, of_r};
      float q[4], k[4];
      unpack4<type>(q_raw[j], q);
      unpack4<type>(k_raw[j], k);
      store_f16(at + Packet::qh, q, all_q);
      if constexpr (rule == Rule::delta) store_f16(at + Packet::kt, k, all_k);
      store_f16(at + Packet::kr, k, all_r);
    }
  }
  if (warp == 7) {
    const float gamma = ex2(end);
    store(smem + Packet::gamma + lane * Prep::lane, F4{gamma, gamma, gamma, gamma});
  }
}

/// The thread's 8 tokens x 4 channels; one code for both blocks and for both halves of the tokens, for the
/// instruction cache.
///   forward   x = D(mid -> i); q x, k x in place; times D(start -> mid), which may be subnormal (harmless),
///             they are Q~, K~. The additive rule has no use for k x and K~
///   backward  y = D(i -> end of its 8), times D from there to the chunk's end -> Kr, to mid_1 -> columns1,
///             and in block 0 to mid_0 -> columns0 (one chain through mid_0 would lose D(mid_0 -> mid_1),
///             which can be below 2^-149 while its products matter)
template <Half16 type, Half16 pairs, Rule rule>
FLA_DEVICE void prep_copies(Smem smem, Smem x0, std::uint32_t warp, std::uint32_t lane, float (&a)[8][4]) {
  const std::uint32_t block = warp >> 2, w4 = warp & 3;
  const Smem run = smem + Prep::run + lane * Prep::lane;
  float mid[4], to_mid1[4], to_end[4], x[4], to_mid[4];
  {
    float own[4], beside[4], pair[4][4];
    load4(run + warp * Prep::row, own);
    load4(run + (warp ^ 1) * Prep::row, beside);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float p[4];
      load4(run + 2 * i * Prep::row, pair[i]);
      load4(run + (2 * i + 1) * Prep::row, p);
#pragma unroll
      for (int c = 0; c < 4; ++c) pair[i][c] *= p[c];
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float between = w4 == 0 || w4 == 3 ? beside[c] : 1,  // the run and mid
          near = (warp & 1) == 0 ? beside[c] : 1,                // the run and the end of its 16
          r = rcp(own[c] * between);
      x[c] = w4 < 2 ? r : between;
      to_mid[c] = w4 < 2 ? between : r;
      mid[c] = pair[0][c];
      if (block == 0) {
        to_mid1[c] = near * pair[2][c];
        if (w4 < 2) to_mid1[c] *= pair[1][c];
        to_end[c] = to_mid1[c] * pair[3][c];
      } else {
        mid[c] *= pair[1][c] * pair[2][c];
        to_mid1[c] = to_mid[c];
        to_end[c] = near;
        if (w4 < 2) to_end[c] *= pair[3][c];
      }
    }
    if (warp == 7)
      store(smem + Packet::gamma + lane * Prep::lane,
            F4{mid[0] * pair[3][0], mid[1] * pair[3][1], mid[2] * pair[3][2], mid[3] * pair[3][3]});
  }
  const std::uint32_t to_columns0 = Prep::columns0 - (lane >> 4) * (kTile - Prep::half32);
  Smem factor = smem + Prep::factor + warp * (8 * Prep::factors);
  float y[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) y[c] = ((a[7][c] * a[6][c]) * a[5][c]) * a[4][c];
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    // Loads go a token ahead: they cannot pass stores whose addresses the compiler cannot compare.
    U2 q_raw[4], k_raw[4];
    F2 f[4];  // of q, of k
    const auto fetch = [&](int j) {
      if (j >= 4) return;
      f[j] = load_f32x2(factor + Prep::factors * j);
      q_raw[j] = load_u32x2(row_of(x0, j) + q_rows(block));
      k_raw[j] = load_u32x2(row_of(x0, j) + k_rows(block));
    };
    float k[4][4];
    fetch(0);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      fetch(j + 1);
      const Smem at = row_of(x0, j);
      float q[4];
      unpack4<type>(q_raw[j], q);
      unpack4<type>(k_raw[j], k[j]);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        x[c] *= a[j][c];
        k[j][c] *= f[j].y;
        q[c] = (q[c] * f[j].x) * x[c];
      }
      store_pairs<pairs>(at + q_rows(block), q);
      store_f16(at + Packet::qh, q, mid);
      if constexpr (rule == Rule::delta) {
        const float km[4] = {k[j][0] * x[0], k[j][1] * x[1], k[j][2] * x[2], k[j][3] * x[3]};
        store_pairs<pairs>(at + k_rows(block), km);
        store_f16(at + Packet::kt, km, mid);
      }
    }
#pragma unroll
    for (int j = 3; j >= 0; --j) {
      const Smem at = row_of(x0, j);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (j < 3) y[c] *= a[j + 1][c];
        k[j][c] *= y[c];
      }
      store_f16(at + Packet::kr, k[j], to_end);
      store_pairs<pairs>(at + Prep::columns1, k[j], to_mid1);
      if (block == 0) store_pairs<pairs>(at + to_columns0, k[j], to_mid);
    }
    x0 = row_of(x0, 4);
    factor += 4 * Prep::factors;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      y[c] = 1;
#pragma unroll
      for (int j = 0; j < 4; ++j) a[j][c] = a[j + 4][c];
    }
  }
}

}  // namespace fla::flash_kda
