#pragma once

#include "backends/flash_kda/barriers.cuh"
#include "backends/flash_kda/params.h"
#include "backends/flash_kda/prep/shared.cuh"

/// The carrying role: step 7.
namespace fla::flash_kda {

/// One warp a place, for a packet takes longer on its way than prep takes for the next one: a packet after
/// the other, from there to where the state reads it.
template <Rule rule>
FLA_DEVICE void prep_carry(const Params& p, Smem at, std::uint32_t place, std::uint32_t lane) {
  const Schedule& schedule = p.schedule;
  Patience patience;
  Target to{};
  std::uint32_t rows = rows_in(record_of(at, 0)), turn = 0;
  if (rows != 0) to = target_in(record_of(at, 0));
  barrier_arrive(Barrier::first_noted, Prep::threads + 64);
  while (rows != 0) {
    if (schedule.taken && lane == 0) {
      for (std::int32_t reader = to.stream; reader < p.state_blocks; reader += schedule.streams)
        wait_at_least(schedule.taken + reader * kTakenApart, to.number - schedule.depth + 1, patience);
      fence_async_global();
    }
    warp_sync();
    barrier(Barrier::folded + place, Prep::threads + 32);
    turn ^= 1;
    if (lane == 0) {
      fence_async_shared();
      std::uint8_t* const packet = schedule.packets + std::uint64_t(to.packet) * Packet::bytes;
#pragma unroll
      for (std::uint32_t i = rule == Rule::delta ? 0 : 1; i < 4; ++i)  // in pieces: loads come between
        bulk_store(packet + i * 2 * kTile, at + Prep::packet + i * 2 * kTile,
                   i < 3 ? 2 * kTile : Packet::end - 6 * kTile);
      bulk_commit();
    }
    // Before this place is free: then the record may be written over.
    const Target sent = to;
    rows = rows_in(record_of(at, turn));
    if (rows != 0) to = target_in(record_of(at, turn));
    warp_sync();  // all lanes know the next record
    if (lane == 0) {
      bulk_wait_read();
      mbar_arrive(at + Prep::bar_left);
      if (schedule.ready) {
        bulk_wait();
        fence_async_global();
        store_release(schedule.ready + sent.packet * kReadyApart, sent.number + 1);
      }
    }
  }
}

}  // namespace fla::flash_kda
