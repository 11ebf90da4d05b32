#pragma once

#include "backends/flash_kda/layout.cuh"
#include "backends/flash_kda/params.h"

/// Which tokens, states and packet a task has (params.h).
namespace fla::flash_kda {

/// A chunk of an item.
struct Task {
  std::int32_t head, batch, token;  ///< token: the chunk's first one, in its batch
  std::int32_t rows;                ///< tokens of the chunk, at most 64
  std::int32_t number;              ///< among the stream's chunks
  std::int32_t stream;
};

FLA_DEVICE std::int32_t tasks_of(const Schedule& s) { return s.plan.tasks ? *s.plan.tasks : s.tasks; }

/// A look at the plan for task w, in flight until it is used.
FLA_DEVICE PlannedTask planned_at(const Schedule& s, std::int32_t w, std::uint32_t tasks) {
  return s.plan.list && std::uint32_t(w) < tasks ? s.plan.list[w] : PlannedTask{};
}

/// Task number w; `planned` is what planned_at gave for it.
FLA_DEVICE Task locate(const Params& p, std::int32_t w, const PlannedTask& planned) {
  const Schedule& s = p.schedule;
  const std::int32_t HV = p.call.HV;
  if (s.plan.list)
    return {
        planned.head, 0, planned.token, planned.stream_rows & 127, planned.number, planned.stream_rows >> 7};
  const std::int32_t whole = s.items / s.by_streams;  // rounds with all streams
  const std::int32_t in_round = w / s.by_round;
  const bool last = in_round >= whole;
  const std::int32_t round = last ? whole : in_round, inside = w - round * s.streams * s.chunks;
  const std::int32_t chunk = inside / (last ? s.by_rest : s.by_streams),
                     stream = inside - chunk * (last ? s.items - whole * s.streams : s.streams),
                     item = round * s.streams + stream;
  const std::int32_t n = item / s.by_heads, left = static_cast<std::int32_t>(p.call.T) - chunk * kChunk;
  return {item - n * HV, n, chunk * kChunk, left < kChunk ? left : kChunk, round * s.chunks + chunk, stream};
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
/// The state that segment `index` (from 1) of an item begins with, what a warpgroup has of it.
FLA_DEVICE float* image_of(const Params& p, std::int32_t item, std::int32_t index, std::uint32_t wg) {
  const std::int64_t image = static_cast<std::int64_t>(item) * (p.segments.count - 1) + index - 1;
  return p.segments.images + (2 * image + wg) * (64 * 128);
}
FLA_DEVICE std::uint8_t* transition_of(const Params& p, std::int32_t item, std::int32_t index) {
  return p.segments.transitions +
         (static_cast<std::int64_t>(item) * (p.segments.count - 2) + index - 1) * (4 * kTile);
}

/// Whether segment `index` of an item has forgotten at its end what was before its last chunks.
FLA_DEVICE std::uint32_t* forgotten_of(const Params& p, std::int32_t item, std::int32_t index) {
  const std::int32_t ends = p.segments.count - 1;
  return reinterpret_cast<std::uint32_t*>(image_of(p, p.schedule.items, 1, 0)) + item * ends + index;
}

/// Where the packet of chunk c of an item is; `number`: of the stream's chunks.
FLA_DEVICE std::int64_t packet_of(const Schedule& s, std::int32_t item, std::int32_t c, std::int32_t number) {
  if (s.depth) return static_cast<std::int64_t>(item % s.by_streams) * s.depth + number % s.by_depth;
  if (s.plan.slices) return s.plan.slices[c] + item;
  return static_cast<std::int64_t>(c) * s.items + item;
}

/// Of a call as with_pool gives it.
using Slots = common::SlotsAs<std::int32_t>;
FLA_DEVICE Slots slots_of(const RecurrenceCall& call, std::int64_t n) {
  return common::slots_of<std::int32_t>(call, n);
}

}  // namespace fla::flash_kda
