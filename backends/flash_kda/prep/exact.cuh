#pragma once

#include "backends/flash_kda/barriers.cuh"
#include "backends/flash_kda/prep/shared.cuh"

/// Instead of steps 3 and 4, for a task that decays by more than a reference can bridge: M, L, Q~, K~ and Kr
/// (of the additive rule M, Q~ and Kr) from running products of decays down the rows, all in f32. About five
/// times the time, and rarely run.
namespace fla::flash_kda {

/// M and -L: thread = column j and a quarter of the channels, rows one after the other.
template <Half16 type, Rule rule>
FLA_DEVICE void exact_pairs(Smem smem, std::uint32_t tid, std::uint32_t warp, std::uint32_t lane,
                            float (&a)[8][4], Smem beta) {
  const Smem decay = smem + Prep::decay, m = smem + Prep::exact_m, l = smem + Prep::exact_l,
             diagonal = smem + Prep::exact_diagonal;
#pragma unroll
  for (int j = 0; j < 8; ++j)
    store(decay + (8 * warp + j) * Prep::row + lane * Prep::lane, F4{a[j][0], a[j][1], a[j][2], a[j][3]});
#pragma unroll
  for (int i = 0; i < 4; ++i) store(m + tid * 16 + i * (16 * Prep::threads), U4{0, 0, 0, 0});
  if (rule == Rule::delta && tid < 8 * Prep::square / 16) store(diagonal + tid * 16, U4{0, 0, 0, 0});
  barrier(Barrier::scaling, Prep::threads);

  const std::uint32_t j = tid >> 2, part = tid & 3;
  // Channels 16 n + 4 part + {0 … 3}, n = 0 … 7, of token i.
  const auto at = [&](std::uint32_t i, std::uint32_t n) {
    return smem + (n >> 2) * kTile + swizzled(i, (n & 3) * 32 + part * 8);
  };
  float w[8][4];
  {
    const float f = load_f32(smem + Prep::factor + Prep::factors * j + Prep::of_key);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      unpack4<type>(load_u32x2(at(j, n) + k_rows(j >> 5)), w[n]);
#pragma unroll
      for (int c = 0; c < 4; ++c) w[n][c] *= f;
    }
  }
#pragma unroll 1
  for (std::uint32_t i = 8 * warp; i < kChunk; ++i) {
    float dot_q = 0, dot_k = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float d[4], q[4], k[4];
      load4(decay + i * Prep::row + n * (4 * Prep::lane) + part * Prep::lane, d);
      unpack4<type>(load_u32x2(at(i, n) + q_rows(i >> 5)), q);
      unpack4<type>(load_u32x2(at(i, n) + k_rows(i >> 5)), k);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        w[n][c] *= i > j ? d[c] : 1.0f;
        dot_q = fma_of(q[c], w[n][c], dot_q);
        dot_k = fma_of(k[c], w[n][c], dot_k);
      }
    }
    dot_q += shuffle_xor(dot_q, 1), dot_k += shuffle_xor(dot_k, 1);
    dot_q += shuffle_xor(dot_q, 2), dot_k += shuffle_xor(dot_k, 2);
    const F2 f = load_f32x2(smem + Prep::factor + Prep::factors * i);
    const float x = dot_q * f.x;
    if (part == 0 && i >= j) store(m + swizzled(i, 2 * j), static_cast<std::uint16_t>(pack_f16(x, 0)));
    if constexpr (rule == Rule::additive) continue;
    const float z = -dot_k * f.y * load_f32(beta + 4 * i);
    if (part == 1 && i > j) store(l + swizzled(i, 2 * j), static_cast<std::uint16_t>(pack_f16(z, 0)));
    if (part == 2 && i > j && (i >> 3) == (j >> 3)) store(diagonal + in_diagonal(i, j), z);
  }
#pragma unroll
  for (int r = 0; r < 8; ++r) load4(decay + (8 * warp + r) * Prep::row + lane * Prep::lane, a[r]);
  barrier(Barrier::scaling, Prep::threads);
}

/// Q~, K~, Kr without a reference: every exponent is that of a decay.
template <Half16 type, Rule rule>
FLA_DEVICE void exact_copies(Smem smem, Smem x0, std::uint32_t warp, std::uint32_t lane,
                             const float (&a)[8][4]) {
  const std::uint32_t block = warp >> 2;
  float x[4] = {1, 1, 1, 1};
#pragma unroll 1
  for (std::uint32_t i = 0; i < 8; ++i) {
    float p[4];
    load4(smem + Prep::run + i * Prep::row + lane * Prep::lane, p);
#pragma unroll
    for (int c = 0; c < 4; ++c) x[c] *= i < warp ? p[c] : 1.0f;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const Smem at = row_of(x0, j);
    const F2 f = load_f32x2(smem + Prep::factor + (8 * warp + j) * Prep::factors);
    float q[4], k[4];
    unpack4<type>(load_u32x2(at + q_rows(block)), q);
    unpack4<type>(load_u32x2(at + k_rows(block)), k);
#pragma unroll
    for (int c = 0; c < 4; ++c) x[c] *= a[j][c], q[c] *= f.x, k[c] *= f.y;
    store_f16(at + Packet::qh, q, x);
    if constexpr (rule == Rule::delta) store_f16(at + Packet::kt, k, x);
  }
  warp_sync();
  if (warp == 7) store(smem + Packet::gamma + lane * Prep::lane, F4{x[0], x[1], x[2], x[3]});
  float y[4] = {1, 1, 1, 1};
#pragma unroll 1
  for (std::uint32_t i = warp + 1; i < 8; ++i) {
    float p[4];
    load4(smem + Prep::run + i * Prep::row + lane * Prep::lane, p);
#pragma unroll
    for (int c = 0; c < 4; ++c) y[c] *= p[c];
  }
#pragma unroll
  for (int j = 7; j >= 0; --j) {
    const Smem at = row_of(x0, j);
    const float fk = load_f32(smem + Prep::factor + (8 * warp + j) * Prep::factors + Prep::of_key);
    float k[4];
    unpack4<type>(load_u32x2(at + k_rows(block)), k);
#pragma unroll
    for (int c = 0; c < 4; ++c) k[c] *= fk;
    store_f16(at + Packet::kr, k, y);
#pragma unroll
    for (int c = 0; c < 4; ++c) y[c] *= a[j][c];
  }
}

/// M and -L from where exact_pairs put them to where the solve wants them; M alone into the packet.
template <Rule rule>
FLA_DEVICE void exact_move(Smem smem, std::uint32_t tid) {
  barrier(Barrier::scaling, Prep::threads);  // q, k and the runs are read
#pragma unroll
  for (std::uint32_t i = 0; i < 2; ++i) {
    const Smem at = smem + tid * 16 + i * (16 * Prep::threads);
    store(at + (rule == Rule::delta ? Prep::m : Packet::b), load_u32x4(at + Prep::exact_m));
    if (rule == Rule::delta) store(at + Prep::l, load_u32x4(at + Prep::exact_l));
  }
  if (rule == Rule::delta && tid < 8 * Prep::square / 16)
    store(smem + Prep::diagonal + tid * 16, load_u32x4(smem + Prep::exact_diagonal + tid * 16));
  barrier(Barrier::scaling, Prep::threads);
}

}  // namespace fla::flash_kda
