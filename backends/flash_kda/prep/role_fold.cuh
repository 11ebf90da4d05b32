#pragma once

#include "backends/flash_kda/prep/fold.cuh"
#include "backends/flash_kda/prep/inputs.cuh"
#include "backends/flash_kda/prep/pairs.cuh"
#include "backends/flash_kda/prep/solve.cuh"
#include "backends/flash_kda/prep/votes.cuh"

/// The folding role: steps 1 and 4 to 6.
namespace fla::flash_kda {

/// Warps 8 to 15: have the inputs of tasks loaded, and make packets of what the scaling warps left.
template <Half16 type, GateKind kind>
FLA_DEVICE void prep_fold(const Params& p, Smem smem, std::uint32_t warp, std::uint32_t lane,
                          std::int32_t worker) {
  const std::uint32_t wg = warp >> 2, w4 = warp & 3;
  Probe probe{smem + Prep::bytes + Prep::ticks + Prep::wg_ticks * wg,
              (wg == 0 ? w4 == 2 : w4 == 3) && lane == 0};

  // Warps with 16 rows of L, one on each quarter of the SM; who of the others does what alone, while these
  // solve: they wait for nobody who waits for memory.
  const bool solves = wg == 0 ? w4 >= 2 : w4 < 2;
  const Inputs<kind, Rule::delta> inputs{p, static_cast<std::uint32_t>(tasks_of(p.schedule)), lane};
  inputs.load_first(smem, warp);

  probe.begin();
  std::uint32_t n = 0;
  for (;; ++n) {
    const std::uint32_t turn = (n >> 1) & 1;
    const Smem at = smem + (n & 1) * Prep::bytes;
    if (rows_in(record_of(at, turn)) == 0) break;
    barrier(Barrier::scaled + (n & 1), 2 * Prep::threads + 32);
    if (warp == 0) barrier_arrive(Barrier::folds_next, 96);
    fence_async_shared();
    probe.mark(8);

    // 4, 5. kept(lane): addresses are computed again for every task; over the loop they would take registers
    // that it has not.
    const std::uint32_t block = 2 * wg + (w4 & 1);  // of 16 rows
    const Smem betas = at + Prep::beta + Prep::betas * turn + 4 * (16 * block + (kept(lane) >> 2));
    const F2 beta{load_f32(betas), load_f32(betas + 4 * 8)};
    const float unit = load_f32(at + Packet::unit);  // 2^e_b of range.cuh
    const auto paired = [&] {
      probe.mark(0);
      barrier(Barrier::folding, Prep::threads);  // nobody reads rows and columns any more
      probe.mark(1);
    };
    const std::uint32_t votes = votes_of(at);
    constexpr bool is_raw = has_raw_pairs(kind);
    if (const Way way = is_raw ? Way::gentle : way_of(votes); way == Way::exact) {
      paired();
    } else {  // one code for both warpgroups, for the instruction cache
      float before[16], own[16];
      if constexpr (is_raw) {
        prep_raw_pairs<type>(at, wg, own, before);
      } else if (wg == 0) {
        prep_pairs<32>(at + Prep::rows0, at + Prep::columns0, way == Way::steep, own);
#pragma unroll
        for (int i = 0; i < 16; ++i) before[i] = 0;
      } else {
        float d[32];
        prep_pairs<64>(at + Prep::rows1, at + Prep::columns1, way == Way::steep, d);
#pragma unroll
        for (int i = 0; i < 16; ++i) before[i] = d[i], own[i] = d[i + 16];
      }
      paired();
      if constexpr (is_raw)
        scale_raw_pairs(at, turn, solves ? Prep::of_key : 0, block, kept(lane), own, before);
      if (solves)
        prep_rows(at, beta, own, before, block, kept(lane));
      else if constexpr (is_raw)
        prep_mask(own, block, kept(lane), [](int, float x) { return x; });
      else
        prep_mask(own, block, kept(lane), DiagonalOfM<type>(at, votes, block, kept(lane)));
      store_rows(at + (solves ? Prep::l : Prep::m), own, before, block, kept(lane));
    }
    warp_sync();
    probe.mark(9);

    // 5. Warps with rows of L solve.
    if (solves) {
      std::uint32_t inverse[4];
      const F2 of_columns{beta.x * unit, beta.y * unit};
      prep_invert(at, of_columns, block, kept(lane), inverse);
      probe.mark(2);
      barrier(Barrier::inverted, 128);
      prep_below(at, of_columns, block, kept(lane), inverse);
      probe.mark(3);
    } else {
      if (wg == 0) barrier_arrive(Barrier::m_stored, 192);
      zero_below(at, 64 * wg + 32 * (w4 & 1) + kept(lane));
      if (wg == 0) zero_below(at, 128 + 32 * w4 + kept(lane));
      if (warp == 0 && elected()) {
        fence_async_shared();
        inputs.load_g(at, turn ^ 1);
      }
      warp_sync();
    }

    // 6
    if (wg == 0) {
      barrier_arrive(Barrier::f0_solved, Prep::threads);
      barrier(Barrier::folding, Prep::threads);
      fence_async_shared();
      probe.mark(12);
      prep_fold_keys(at, w4, kept(lane), probe, [&] {
        if (elected()) inputs.load_qk(at, turn ^ 1, w4 >> 1, w4 & 1);
        warp_sync();
      });
    } else {
      std::uint32_t m[16];
      const Smem from_m = fragment_a(at + Prep::m, 16 * w4, kept(lane));
      barrier(Barrier::m_stored, 192);
#pragma unroll
      for (int j = 0; j < 4; ++j) ldmatrix(m + 4 * j, from_m ^ (j << 5));
      probe.mark(10);
      barrier_arrive(Barrier::folding, Prep::threads);
      barrier(Barrier::f0_solved, Prep::threads);
      fence_async_shared();
      probe.mark(12);
      prep_fold_queries(at, w4, kept(lane), m, unit, probe);
    }
    probe.mark(13);
    warp_sync();
    barrier_arrive(Barrier::folded + (n & 1), Prep::threads + 32);
    probe.mark(14);
  }
  probe.end(p.probe ? p.probe + ((p.state_blocks + worker) * 4 + 2 + wg) * 16 : nullptr);
}

}  // namespace fla::flash_kda
