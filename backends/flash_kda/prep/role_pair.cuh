#pragma once

#include "backends/flash_kda/prep/inputs.cuh"
#include "backends/flash_kda/prep/pairs.cuh"
#include "backends/flash_kda/probe.cuh"

/// What the folding warps do where the rule is additive: steps 1 and 4. There is nothing to solve nor to
/// fold, Q~ and Kr are in the packet, and M (times 16) comes beside them.
namespace fla::flash_kda {

template <Half16 type, GateKind kind>
FLA_DEVICE void prep_pair(const Params& p, Smem smem, std::uint32_t warp, std::uint32_t lane,
                          std::int32_t worker) {
  const std::uint32_t wg = warp >> 2, w4 = warp & 3;
  Probe probe{smem + Prep::bytes + Prep::ticks + Prep::wg_ticks * wg,
              (wg == 0 ? w4 == 2 : w4 == 3) && lane == 0};
  // Warps whose rows are queries have 16 rows of M. The others, whose products nobody wants, prepare what
  // comes; helper: which of these.
  const bool has_rows = wg == 0 ? w4 < 2 : w4 >= 2;
  const std::uint32_t helper = wg == 0 ? w4 - 2 : 2 + w4;
  const Inputs<kind, Rule::additive> inputs{p, static_cast<std::uint32_t>(tasks_of(p.schedule)), lane};
  inputs.load_first(smem, warp);

  probe.begin();
  for (std::uint32_t n = 0;; ++n) {
    const std::uint32_t turn = (n >> 1) & 1;
    const Smem at = smem + (n & 1) * Prep::bytes;
    if (rows_in(record_of(at, turn)) == 0) break;
    barrier(Barrier::scaled + (n & 1), 2 * Prep::threads + 32);
    if (warp == 0) barrier_arrive(Barrier::folds_next, 96);
    fence_async_shared();
    probe.mark(8);

    const std::uint32_t block = 2 * wg + (w4 & 1);  // of 16 rows
    constexpr bool is_raw = has_raw_pairs(kind);
    const std::uint32_t votes = votes_of(at);
    const Way way = is_raw ? Way::gentle : way_of(votes);
    float before[16], own[16];
    if constexpr (is_raw) {
      prep_raw_pairs<type>(at, wg, own, before);
    } else if (way != Way::exact) {
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
      if (has_rows) prep_mask(own, block, kept(lane), DiagonalOfM<type>(at, votes, block, kept(lane)));
    }
    probe.mark(0);
    barrier(Barrier::folding, Prep::threads);  // nobody reads rows and columns any more
    probe.mark(1);
    if (has_rows) {
      if constexpr (is_raw) {
        scale_raw_pairs(at, turn, 0, block, kept(lane), own, before);
        prep_mask(own, block, kept(lane), [](int, float x) { return x; });
      }
      if (way != Way::exact) store_rows(at + Packet::b, own, before, block, kept(lane));
    } else {
      if (elected()) {
        fence_async_shared();
        if (helper == 0) inputs.load_g(at, turn ^ 1);
        inputs.load_qk(at, turn ^ 1, helper >> 1, helper & 1);
      }
      warp_sync();
    }
    probe.mark(13);
    warp_sync();
    barrier_arrive(Barrier::folded + (n & 1), Prep::threads + 32);
    probe.mark(14);
  }
  probe.end(p.probe ? p.probe + ((p.state_blocks + worker) * 4 + 2 + wg) * 16 : nullptr);
}

}  // namespace fla::flash_kda
