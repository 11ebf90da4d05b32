#pragma once

#include "backends/flash_kda/layout.cuh"
#include "backends/flash_kda/params.h"

/// Which tokens, states and packet a piece of work has (params.h).
namespace fla::flash_kda {

/// A chunk of an item.
struct Work {
  std::int32_t item, head, batch, token;  ///< token: the chunk's first one, in its batch
  std::int32_t rows;                      ///< tokens of the chunk, at most 64
  std::int32_t number;                    ///< among the stream's chunks
  std::int32_t stream;
};

FLA_DEVICE std::int32_t works_of(const Schedule& s) { return s.plan.works ? *s.plan.works : s.works; }

/// A look at the plan's slices from `from` on, one a lane, in flight until it is used.
FLA_DEVICE Slice slice_at(const Schedule& s, std::int32_t from, std::uint32_t lane) {
  return s.plan.slices ? s.plan.slices[from + lane] : Slice{};
}

/// Work number w, by a whole warp. `slice` is that of an earlier work, 0 at first, and `seen` what slice_at
/// gave for it.
FLA_DEVICE Work locate(const Params& p, std::int32_t w, std::int32_t& slice, Slice seen, std::uint32_t lane) {
  const Schedule& s = p.schedule;
  const std::int32_t HV = p.call.HV;
  if (s.plan.slices) {
    // The last slice that begins at w or before; the table goes on after its end.
    std::uint32_t passed;
    while ((passed = first_true(w < seen.first)) == 32) {
      slice += 31;
      seen = slice_at(s, slice, lane);
    }
    slice += passed - 1;
    const std::int32_t first = shuffle(seen.first, passed - 1), round = shuffle(seen.round, passed - 1),
                       chunk = shuffle(seen.chunk, passed - 1);
    const std::int32_t stream = w - first, item = round * s.streams + stream;
    const std::int32_t base = s.plan.base[item], rank = item / s.by_heads;
    const Sequence sequence = s.plan.sequences[rank];
    const std::int32_t left = sequence.tokens - chunk * kChunk;
    return {item,
            item - rank * HV,
            0,
            sequence.begin + chunk * kChunk,
            left < kChunk ? left : kChunk,
            base + chunk,
            stream};
  }
  const std::int32_t whole = s.items / s.by_streams;  // rounds with all streams
  const std::int32_t in_round = w / s.by_round;
  const bool last = in_round >= whole;
  const std::int32_t round = last ? whole : in_round, inside = w - round * s.streams * s.chunks;
  const std::int32_t chunk = inside / (last ? s.by_rest : s.by_streams),
                     stream = inside - chunk * (last ? s.items - whole * s.streams : s.streams),
                     item = round * s.streams + stream;
  const std::int32_t n = item / s.by_heads, left = static_cast<std::int32_t>(p.call.T) - chunk * kChunk;
  return {item,  item - n * HV, n, chunk * kChunk, left < kChunk ? left : kChunk, round * s.chunks + chunk,
          stream};
}

/// A whole item.
struct Item {
  std::int32_t n, head, batch, begin, tokens, chunks;
};
FLA_DEVICE Item item_of(const Params& p, std::int32_t item) {
  const std::int32_t HV = p.call.HV, i = item / p.schedule.by_heads, head = item - i * HV;
  if (p.schedule.plan.sequences) {
    const Sequence s = p.schedule.plan.sequences[i];
    return {s.n, head, 0, s.begin, s.tokens, s.chunks};
  }
  return {i, head, i, 0, static_cast<std::int32_t>(p.call.T), p.schedule.chunks};
}

/// A segment of an item: chunks first to last - 1. The first one is there also when it is empty: it copies
/// the state.
struct Segment {
  std::int32_t item, index, first, last;
  bool there, ends;
};
FLA_DEVICE Segment segment_of(const Params& p, std::int32_t job, std::int32_t chunks) {
  const Segments& segments = p.segments;
  const std::int32_t index = job / p.schedule.by_items, item = job - index * p.schedule.items;
  const std::int32_t first = index == 0 ? 0 : index * segments.length;
  const std::int32_t last = chunks - first < segments.length ? chunks : first + segments.length;
  return {item, index, first, last, index == 0 || first < chunks, last >= chunks};
}
/// The state that segment `index` (from 1) of an item begins with.
FLA_DEVICE float* image_of(const Params& p, std::int32_t item, std::int32_t index) {
  return p.segments.images +
         (static_cast<std::int64_t>(item) * (p.segments.count - 1) + index - 1) * (64 * 256);
}
FLA_DEVICE std::uint8_t* transition_of(const Params& p, std::int32_t item, std::int32_t index) {
  return p.segments.transitions +
         (static_cast<std::int64_t>(item) * (p.segments.count - 2) + index - 1) * (4 * kTile);
}

/// Where the packet of chunk c of an item is; `number`: of the stream's chunks.
FLA_DEVICE std::int64_t packet_of(const Schedule& s, std::int32_t item, std::int32_t c, std::int32_t number) {
  if (s.depth) return static_cast<std::int64_t>(item % s.streams) * s.depth + number % s.by_depth;
  if (s.plan.slices) return s.plan.slices[c].first + item;
  return static_cast<std::int64_t>(c) * s.items + item;
}

FLA_DEVICE std::int64_t index_at(const Indices& indices, std::int64_t i) {
  const std::int64_t at = i * indices.stride;
  return indices.wide ? static_cast<const std::int64_t*>(indices.data)[at]
                      : static_cast<const std::int32_t*>(indices.data)[at];
}

/// Where sequence n's states are; negative: nowhere.
struct Slots {
  std::int64_t read, write;
};
FLA_DEVICE Slots slots_of(const KdaCall& call, std::int64_t n) {
  Slots slots{n, n};
  if (call.read_slots.data) slots.read = slots.write = index_at(call.read_slots, n);
  if (call.write_slots.data) slots.write = index_at(call.write_slots, n);
  if (call.initial_state.data && slots.read >= call.initial_state.slots) slots.read = -1;
  if (call.final_state.data && slots.write >= call.final_state.slots) slots.write = -1;
  return slots;
}

}  // namespace fla::flash_kda
