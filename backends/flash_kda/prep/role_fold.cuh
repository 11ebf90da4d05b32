#pragma once

#include "backends/flash_kda/prep/fold.cuh"
#include "backends/flash_kda/prep/inputs.cuh"
#include "backends/flash_kda/prep/pairs.cuh"
#include "backends/flash_kda/prep/solve.cuh"
#include "backends/flash_kda/prep/votes.cuh"

/// The folding role: steps 1 and 4 to 6.
namespace fla::flash_kda {

/// Rows 16 w to 16 w + 15 of M, masked. Of f16 inputs the diagonal, where nothing decays, has the products of
/// queries and keys as they came, but for odd magnitudes.
template <Half16 type>
FLA_DEVICE void mask_M(Smem at, std::uint32_t votes, float (&own)[16], std::uint32_t w, std::uint32_t lane) {
  if constexpr (type == Half16::bf16) {
    prep_mask(own, w, lane, [](int, float x) { return x; });
  } else {
    float exact[2];
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) {
      const std::uint32_t token = 16 * w + (lane >> 2) + 8 * r;
      const F2 factor = load_f32x2(at + Prep::factor + Prep::factors * token);
      exact[r] = load_f32(at + Prep::dots + 4 * token) * factor.x * factor.y;
    }
    const bool plain = (votes & kOdd) == 0;
    prep_mask(own, w, lane, [&](int r, float x) { return plain ? exact[r] : x; });
  }
}

/// Warps 8 to 15: find the tasks, have their inputs loaded, and make packets of what the scaling warps left.
template <Half16 type, GateKind kind>
FLA_DEVICE void prep_fold(const Params& p, Smem smem, std::uint32_t warp, std::uint32_t lane,
                          std::int32_t worker, std::int32_t workers) {
  const std::uint32_t wg = warp >> 2, w4 = warp & 3;
  const Schedule& schedule = p.schedule;
  Probe probe{smem + Prep::bytes + Prep::ticks + Prep::wg_ticks * wg,
              (wg == 0 ? w4 == 2 : w4 == 3) && lane == 0};

  // Warps with 16 rows of L, one on each quarter of the SM; who of the others does what alone, while these
  // solve: they wait for nobody who waits for memory.
  const bool solves = wg == 0 ? w4 >= 2 : w4 < 2;
  constexpr std::uint32_t asking = 0, resting = 1, finding = 7;
  const bool finds = warp == finding && lane == 0;
  const std::uint32_t tasks = tasks_of(schedule);
  const Inputs<kind> inputs{p, tasks, lane};

  // The first three tasks, a warp each.
  if (warp < 3) {
    const std::int32_t w = worker + static_cast<std::int32_t>(warp) * workers;
    const Smem at = smem + (warp & 1) * Prep::bytes;
    if (lane == 0) inputs.announce(w, planned_at(schedule, w, tasks), record_of(at, warp >> 1));
    warp_sync();
    if (warp < 2) {
      if (lane == 0) inputs.load_g(at, 0);
      if (lane < 4) inputs.load_qk(at, 0, lane >> 1, lane & 1);
      warp_sync();
      inputs.store_rest(at, 0, inputs.load_rest(record_of(at, 0)));
    }
  }
  std::int32_t w = worker + 3 * workers;  // the next task that is not announced yet, of the finding thread
  if (finds && schedule.claim) w = fetch_add(schedule.claim, 1);
  warp_sync();  // barriers want whole warps
  barrier_arrive(Barrier::first_found, Prep::threads + 32);
  barrier(Barrier::first_noted, Prep::threads + 32);

  probe.begin();
  std::uint32_t n = 0;
  for (;; ++n) {
    const std::uint32_t turn = (n >> 1) & 1;
    const Smem at = smem + (n & 1) * Prep::bytes, other = smem + (~n & 1) * Prep::bytes;
    if (rows_in(record_of(at, turn)) == 0) break;
    barrier(Barrier::scaled + (n & 1), 2 * Prep::threads);
    fence_async_shared();
    probe.mark(8);

    // 4, 5. kept(lane): addresses are computed again for every task; over the loop they would take registers
    // that it has not.
    PlannedTask seen{};  // a look at memory that is used later
    if (finds) seen = planned_at(schedule, w, tasks);
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
    if (const Way way = way_of(votes); way == Way::exact) {
      paired();
    } else {  // one code for both warpgroups, for the instruction cache
      float before[16], own[16];
      if (wg == 0) {
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
      if (solves)
        prep_rows(at, beta, own, before, block, kept(lane));
      else
        mask_M<type>(at, votes, own, block, kept(lane));
      store_rows(at + (solves ? Prep::l : Prep::m), own, before, block, kept(lane));
    }
    warp_sync();
    probe.mark(9);

    // 5. Warps with rows of L solve; the others prepare what comes, a part for each warp: one alone is slow.
    Rest rest{};
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
      if (warp == asking) {
        if (elected()) {
          fence_async_shared();
          inputs.load_g(at, turn ^ 1);
        }
      } else if (warp == resting) {
        rest = inputs.load_rest(record_of(at, turn ^ 1));  // in flight until 6
      } else if (finds) {
        inputs.announce(w, seen, record_of(other, ((n + 3) >> 1) & 1));
        w = schedule.claim ? std::int32_t(fetch_add(schedule.claim, 1)) : w + workers;
      }
      warp_sync();
    }

    // 6
    float d[64];
    if (wg == 0) {
      barrier_arrive(Barrier::f0_solved, Prep::threads);
      barrier(Barrier::folding, Prep::threads);
      fence_async_shared();
      probe.mark(12);
      prep_fold_keys(at, d, probe, [&] {
        if (elected()) inputs.load_qk(at, turn ^ 1, w4 >> 1, w4 & 1);
        warp_sync();
        if (warp == resting) inputs.store_rest(at, turn ^ 1, rest);
      });
    } else {
      std::uint32_t q[32], m[16];
      const Smem from = fragment_a(at + Packet::qh, 16 * w4, kept(lane)),
                 from_m = fragment_a(at + Prep::m, 16 * w4, kept(lane));
#pragma unroll
      for (int j = 0; j < 8; ++j) ldmatrix(q + 4 * j, (from ^ ((j & 3) << 5)) + (j >> 2) * kTile);
      barrier(Barrier::m_stored, 192);
#pragma unroll
      for (int j = 0; j < 4; ++j) ldmatrix(m + 4 * j, from_m ^ (j << 5));
      probe.mark(10);
      barrier_arrive(Barrier::folding, Prep::threads);
      barrier(Barrier::f0_solved, Prep::threads);
      fence_async_shared();
      probe.mark(12);
      prep_fold_queries(at, w4, kept(lane), m, q, unit, d, probe);
    }
    store_operator(at + (wg == 0 ? Packet::kr : Packet::qh), w4, kept(lane), d);

    probe.mark(13);
    warp_sync();
    barrier_arrive(Barrier::folded + (n & 1), Prep::threads + 32);
    probe.mark(14);
  }
  probe.end(p.probe ? p.probe + ((p.state_blocks + worker) * 4 + 2 + wg) * 16 : nullptr);
}

}  // namespace fla::flash_kda
