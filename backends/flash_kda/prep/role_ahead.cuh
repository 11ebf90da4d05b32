#pragma once

#include "backends/flash_kda/prep/inputs.cuh"

/// The role of those that go ahead: where the tasks are, and what TMA does not bring of them.
namespace fla::flash_kda {

/// Two warps, while task n is folded: one announces n + 3, the other brings beta and the gates' parameters of
/// n + 2. Both wait for memory as long as a task takes.
template <GateKind kind, Rule rule>
FLA_DEVICE void prep_ahead(const Params& p, Smem smem, bool finds, std::uint32_t lane, std::int32_t worker,
                           std::int32_t workers) {
  const Schedule& schedule = p.schedule;
  const auto tasks = static_cast<std::uint32_t>(tasks_of(schedule));
  const bool has_tasks = std::uint32_t(worker) < tasks;
  if (finds && !has_tasks) return;
  const Inputs<kind, rule> inputs{p, tasks, lane};
  const auto next_of = [&](std::int32_t w) {
    return schedule.claim ? std::int32_t(fetch_add(schedule.claim, 1)) : w + workers;
  };
  std::int32_t w = worker + 2 * workers;  // the first three are known, and beta of none
  if (finds) {
    if (lane == 0) w = next_of(w);
    barrier_arrive(Barrier::scaled, 2 * Prep::threads + 32);
  }
#pragma unroll 1
  for (std::int32_t n = finds ? 0 : -2;; ++n) {
    const std::uint32_t turn = (n >> 1) & 1;
    const Smem at = smem + (n & 1) * Prep::bytes, other = smem + (~n & 1) * Prep::bytes;
    if (n >= 0) barrier(Barrier::folds_next, 96);  // nobody reads the record of n - 1 any more
    const bool more = n < -1 || (n < 0 ? has_tasks : rows_in(record_of(other, ((n + 1) >> 1) & 1)) != 0);
    if (!finds) {
      inputs.store_rest(at, turn ^ 1, inputs.load_rest(record_of(at, turn ^ 1)));
    } else if (lane == 0) {
      inputs.announce(w, planned_at(schedule, w, tasks), record_of(other, ((n + 3) >> 1) & 1));
      if (std::uint32_t(w) < tasks) w = next_of(w);
    }
    warp_sync();
    if (!more) break;
    if (finds) barrier_arrive(Barrier::scaled + (~n & 1), 2 * Prep::threads + 32);
  }
}

}  // namespace fla::flash_kda
