#pragma once

#include "backends/flash_kda/prep/copies.cuh"
#include "backends/flash_kda/prep/exact.cuh"
#include "backends/flash_kda/prep/measure.cuh"
#include "backends/flash_kda/prep/odd.cuh"

/// The scaling role: steps 2 and 3.
namespace fla::flash_kda {

/// Warps 0 to 7: g, q, k of one task after the other to what the pairs and the folds multiply.
template <Half16 type, GateKind kind, Rule rule, Gate gate>
FLA_DEVICE void prep_scale(const Params& p, Smem smem, std::uint32_t thread, std::int32_t worker) {
  const std::uint32_t warp = uniform(thread >> 5), lane = kept(thread & 31), wg = warp >> 2, w4 = warp & 3;
  Patience patience;
  Probe probe{smem + Prep::ticks + Prep::wg_ticks * wg, w4 == 0 && lane == 0};
  probe.begin();
  // Of task n, in place n & 1:
  std::uint32_t n = 0;
  float a[8][4];  // decays
  const auto place = [&] { return smem + (n & 1) * Prep::bytes; };
  const auto turn_of = [&] { return (n >> 1) & 1; };
  // The thread's 4 channels of its first token in a tile of 64 tokens at offset 0.
  const auto first_of = [&](std::uint32_t l) {
    return place() + warp * (8 * kTileRow) + (l >> 4) * kTile + (l & 15) * 8;
  };
  const Measure<type, kind, rule, gate> measure{p, warp, lane, wg, w4, n, a, patience, probe};
  const auto hand_over = [&](std::uint32_t votes) {
    if ((votes & kOdd) != 0) {
      rarely();
      prep_lose<rule>(place(), first_of(kept(lane)), warp, kept(lane),
                      load_u32(place() + Prep::vote + 4 * warp) >> kLost);
    }
    warp_sync();
    barrier_arrive(Barrier::scaled + (n & 1), 2 * Prep::threads + 32);
    ++n;
    probe.mark(6);
  };
  if constexpr (has_raw_pairs(kind)) {
    while (measure(place(), turn_of(), first_of)) {
      std::uint32_t votes = votes_of(place());
      if ((votes & kOdd) != 0) {
        rarely();
        prep_odd<type, kind, rule>(place(), turn_of(), first_of(kept(lane)), warp, kept(lane),
                                   rows_in(record_of(place(), turn_of())), a, votes);
        votes = votes_of(place());
        if (warp == 0 && lane == 0) store(place() + Packet::odd, votes & (kOdd | kScaled));
      }
      prep_raw_copies<type, rule>(place(), turn_of(), first_of(kept(lane)), warp, kept(lane));
      hand_over(votes);
    }
    probe.end(p.probe ? p.probe + ((p.state_blocks + worker) * 4 + wg) * 16 : nullptr);
    return;
  }
  // Step 3. Tasks that need more than the copies are taken care of outside of the others' loop: inside, their
  // code would slow the others down.
  constexpr std::uint32_t none = 0xffffffff;
  for (std::uint32_t votes = none;;) {  // of task n, once it has been measured
    do {
      if (votes != none) {
        if (way_of(votes) == Way::steep)
          prep_copies<type, Half16::bf16, rule>(place(), first_of(kept(lane)), warp, kept(lane), a);
        else
          prep_copies<type, Half16::f16, rule>(place(), first_of(kept(lane)), warp, kept(lane), a);
        hand_over(votes);
      }
      if (!measure(place(), turn_of(), first_of)) {
        probe.end(p.probe ? p.probe + ((p.state_blocks + worker) * 4 + wg) * 16 : nullptr);
        return;
      }
      votes = votes_of(place());
    } while ((votes & (kOdd | kStrong)) == 0);
    if ((votes & kOdd) != 0) {
      rarely();
      prep_odd<type, kind, rule>(place(), turn_of(), first_of(kept(lane)), warp, kept(lane),
                                 rows_in(record_of(place(), turn_of())), a, votes);
      votes = votes_of(place());
      if (warp == 0 && lane == 0) store(place() + Packet::odd, votes & (kOdd | kScaled));
    }
    if (way_of(votes) == Way::exact) {
      rarely();
      exact_pairs<type, rule>(place(), 32 * warp + kept(lane), warp, kept(lane), a,
                              place() + Prep::beta + Prep::betas * turn_of());
      exact_copies<type, rule>(place(), first_of(kept(lane)), warp, kept(lane), a);
      exact_move<rule>(kept(place()), 32 * warp + kept(lane));
      hand_over(votes);
      votes = none;
    }
  }
}

}  // namespace fla::flash_kda
