#pragma once

#include "backends/flash_kda/state.cuh"

/// Combine: the first states of an item's segments, S_{s+1} = P_s S_s + R_s, or R_s alone where a segment has
/// forgotten S_s: there is no P then, and what is read in its place does not count. Nothing else can run
/// meanwhile, so a step is cut fine: a CTA has 16 rows of S^T, and of these a warp 32 keys, in registers.
///     S -> two f16 parts -> shared memory, where all four warps find A
///     mma  S^T P^T, both parts; B is P, from four stages that bulk copies fill
///     S' = product + R, loaded two steps ahead
/// A thread has row lane / 4 (+ 8), key 32 warp + 8 n + 2 (lane % 4) (+ 1) as element 4 n + 2 [+ 8] + [+ 1].
namespace fla::flash_kda {

struct Combine {
  static constexpr std::uint32_t threads = 128, blocks = 8;  // of an item
  static constexpr std::uint32_t stages = 4, stage = 4 * kTile;
  static constexpr std::uint32_t part = 512, step = 2 * part;              // of A: 16 rows x 16 keys
  static constexpr std::uint32_t a = stages * stage, turn = 8 * step;      // [2 turns][8 steps][2 parts]
  static constexpr std::uint32_t most = a + 2 * turn, finite = most + 32;  // u32 [2 turns][4 warps]; [4]
  static constexpr std::uint32_t full = finite + 16;
  static constexpr std::uint32_t bytes = full + 1024;
};

FLA_DEVICE std::uint32_t largest_of(U4 x) {
  const std::uint32_t low = x.x > x.y ? x.x : x.y, high = x.z > x.w ? x.z : x.w;
  return low > high ? low : high;
}

/// The additive rule's P is diagonal, and nothing is multiplied but element by element.
FLA_DEVICE void combine_diagonal(const Params& p) {
  const std::uint32_t warp = uniform(thread() >> 5), lane = thread() & 31;
  let_next_kernel_come();
  wait_for_kernel_before();
  const std::int32_t index = block() / Combine::blocks;
  const std::uint32_t rows = block() % Combine::blocks, wg = rows >> 2, seat = 32 * (rows & 3) + lane;
  const std::int32_t steps = (item_of(p, index).chunks - 1) / p.segments.length - 1;  // 1 … steps have a P
  if (steps < 1 || 16 * rows >= std::uint32_t(p.call.V)) return;
  const auto image = [&](std::int32_t segment) {  // from the warp's keys on
    return image_of(p, index, segment, wg) + 16 * 128 * warp;
  };
  float s[16], r[16];
  image_load(image(1), seat, s);
  for (std::int32_t step = 1; step <= steps; ++step) {
    const auto* const diagonal = reinterpret_cast<const float*>(transition_of(p, index, step));
    const bool forgotten = *forgotten_of(p, index, step) != 0;
    image_load(image(step + 1), seat, r);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const std::uint32_t key = 32 * warp + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1);
      s[i] = forgotten ? r[i] : fma_of(diagonal[key], s[i], r[i]);
    }
    image_store(image(step + 1), seat, s);
  }
}

FLA_DEVICE void combine(const Params& p, Smem smem) {
  if (p.call.rule == Rule::additive) return combine_diagonal(p);
  const std::uint32_t tid = thread(), warp = uniform(tid >> 5), lane = tid & 31;
  let_next_kernel_come();
  if (tid == 0) {
    for (std::uint32_t i = 0; i < Combine::stages; ++i) mbar_init(smem + Combine::full + 8 * i, 1);
    mbar_init_fence();  // the others come to them behind the first step's barrier
  }
  wait_for_kernel_before();
  const std::int32_t index = block() / Combine::blocks;
  const std::uint32_t rows = block() % Combine::blocks, wg = rows >> 2, seat = 32 * (rows & 3) + lane;
  const std::int32_t steps = (item_of(p, index).chunks - 1) / p.segments.length - 1;  // 1 … steps have a P
  if (steps < 1 || 16 * rows >= std::uint32_t(p.call.V)) return;
  const auto image = [&](std::int32_t segment) {  // from the warp's keys on
    return image_of(p, index, segment, wg) + 16 * 128 * warp;
  };
  const auto load = [&](std::int32_t step, std::uint32_t at) {
    if (tid != 0 || step > steps) return;
    const Smem full = smem + Combine::full + 8 * at;
    mbar_expect(full, Combine::stage);
    bulk_load(smem + at * Combine::stage, transition_of(p, index, step), Combine::stage, full);
  };
  for (std::uint32_t i = 0; i < Combine::stages; ++i) load(static_cast<std::int32_t>(1 + i), i);
  Patience patience;
  Turn<Combine::stages> turn;
  float s[16], r[16], next[16];
  image_load(image(1), seat, s);
  image_load(image(2), seat, r);
  std::uint64_t forgotten = 0;  // a bit a step, the next one's first
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::int32_t step = static_cast<std::int32_t>(1 + 32 * half + lane);
    const bool own = step <= steps && *forgotten_of(p, index, step) != 0;
    forgotten |= static_cast<std::uint64_t>(bits_of_all(own ? 1u << lane : 0)) << 32 * half;
  }
  if (forgotten == (std::uint64_t{1} << steps) - 1) {  // nothing to add; what was asked for has to come first
    for (std::int32_t i = 0; tid == 0 && i < steps && i < std::int32_t(Combine::stages); ++i)
      mbar_wait(smem + Combine::full + 8 * i, 0, patience);
    return;
  }
  for (std::int32_t step = 1; step <= steps; ++step) {
    const Smem a = smem + Combine::a + (step & 1) * Combine::turn,
               mosts = smem + Combine::most + 16 * (step & 1);
    if (step < steps) image_load(image(step + 2), seat, next);
    const auto store_a = [&] {
#pragma unroll
      for (int kk = 0; kk < 2; ++kk) {
        std::uint32_t high[4], low[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float x = s[8 * kk + 2 * i], y = s[8 * kk + 2 * i + 1];
          high[i] = pack_f16(x, y);
          const F2 rounded = unpack_f16(high[i]);
          low[i] = pack_f16(x - rounded.x, y - rounded.y);
        }
        const Smem at = a + (2 * warp + kk) * Combine::step + 16 * lane;
        store(at, U4{high[0], high[1], high[2], high[3]});
        store(at + Combine::part, U4{low[0], low[1], low[2], low[3]});
      }
    };
    std::uint32_t own = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) own = magnitude_bits(s[i]) > own ? magnitude_bits(s[i]) : own;
    own = largest(own);
    if (lane == 0) store(mosts + 4 * warp, own);
    store_a();
    barrier(Barrier::combine, Combine::threads);
    if (step > 1)  // nobody reads the P of the step before any more
      load(step - 1 + static_cast<std::int32_t>(Combine::stages),
           (turn.at() + Combine::stages - 1) % Combine::stages);

    std::int32_t gauge = 0;  // as in range.cuh, of all 16 rows
    if (const std::uint32_t most = largest_of(load_u32x4(mosts));
        most != 0 && (most < f32_bits(kSmallestState) || most >= f32_bits(kLargestState<Rule::delta>))) {
      rarely();
      float finite = 0;
#pragma unroll
      for (int i = 0; i < 16; ++i)
        finite = max_of(finite, is_finite(s[i]) ? bits_f32(magnitude_bits(s[i])) : 0);
      own = largest(f32_bits(finite));
      if (lane == 0) store(smem + Combine::finite + 4 * warp, own);
      barrier(Barrier::combine, Combine::threads);
      gauge = change_of_gauge(largest_of(load_u32x4(smem + Combine::finite)), false, 0);
#pragma unroll
      for (int i = 0; i < 16; ++i) s[i] = is_finite(s[i]) ? s[i] * power(gauge) : kNaN;
      store_a();
      barrier(Barrier::combine, Combine::threads);
    }

    mbar_wait(smem + Combine::full + 8 * turn.at(), turn.phase(), patience);
    warp_sync();
    float high[4][4] = {}, low[4][4] = {};
    const Smem b = fragment_b(smem + turn.at() * Combine::stage, 32 * warp, lane);
#pragma unroll
    for (std::uint32_t kk = 0; kk < 8; ++kk) {
      const U4 x = load_u32x4(a + kk * Combine::step + 16 * lane),
               y = load_u32x4(a + kk * Combine::step + Combine::part + 16 * lane);
      const std::uint32_t of_high[4] = {x.x, x.y, x.z, x.w}, of_low[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        std::uint32_t keys[4];
        ldmatrix(keys, (b ^ ((kk & 3) << 5)) + (kk >> 2) * (2 * kTile) + pair * 2048);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          mma<Half16::f16>(high[2 * pair + n], of_high, keys[2 * n], keys[2 * n + 1]);
          mma<Half16::f16>(low[2 * pair + n], of_low, keys[2 * n], keys[2 * n + 1]);
        }
      }
    }
    const float factor = power(-gauge);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float product = high[i >> 2][i & 3] + low[i >> 2][i & 3];
      s[i] = (forgotten & 1) != 0 ? r[i] : fma_of(product, factor, r[i]);
      r[i] = next[i];
    }
    image_store(image(step + 1), seat, s);
    forgotten >>= 1;
    turn.next();
  }
}

}  // namespace fla::flash_kda
