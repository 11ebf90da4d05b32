#pragma once

#include "backends/flash_kda/barriers.cuh"
#include "backends/flash_kda/sizes.h"
#include "backends/flash_kda/task.cuh"

/// Before a forward pass whose sequences are known on the device only, or whose packets pass through places
/// used in turn: makes the tables of params.h from cu_seqlens and clears the counters. Every CTA sorts the
/// sequences by itself, in shared memory; where a task stands in the list follows from the sorted lengths and
/// their sums alone, so that CTAs share the list's tasks without a word. cu_seqlens may hold anything:
/// entries are clamped to [0, T], and one that lies before another that precedes it counts as that one, so
/// that no two sequences share a token and there is room for all their chunks.
namespace fla::flash_kda {

inline constexpr std::uint32_t kPlanThreads = 256, kPlanWarps = kPlanThreads / 32;

/// Shared memory. A sequence's rank is its place among the sorted ones.
struct PlanShared {
  static constexpr std::uint32_t ranks = 0,       ///< [N + 1] Ranked
      chunks = ranks + 16 * kMostSequences + 16,  ///< [N], as given; -1 up to a multiple of four
      starts = chunks + 4 * kMostSequences,       ///< [N + 1]: where sequences begin, and the last one ends
      largest = starts + 4 * kMostSequences + 4,  ///< [2][warps]: of their entries; used in turn
      bytes = largest + 8 * kPlanWarps;
};
inline constexpr std::uint32_t kPlanShared = PlanShared::bytes;

struct PlanParams {
  Schedule schedule;
  Indices cu_seqlens;
  std::int32_t T, N, HV;
  Divisor by_parts;       ///< warps that share the tasks of 32 items
  std::uint32_t claimed;  ///< tasks that are dealt out beforehand
};

/// What the list needs of a sequence. After the last one stands one without tokens.
struct Ranked {
  std::int32_t begin, tokens, chunks;
  std::int32_t before;  ///< chunks of the ranks before
};
FLA_DEVICE Ranked ranked(Smem smem, std::int32_t rank) {
  const U4 x = load_u32x4(smem + PlanShared::ranks + 16 * rank);
  return {std::int32_t(x.x), std::int32_t(x.y), std::int32_t(x.z), std::int32_t(x.w)};
}

FLA_DEVICE std::int32_t larger(std::int32_t a, std::int32_t b) { return a > b ? a : b; }
FLA_DEVICE std::int32_t smaller(std::int32_t a, std::int32_t b) { return a < b ? a : b; }

/// Writes `starts` and `chunks`: a prefix maximum over the entries of cu_seqlens.
FLA_DEVICE void find_starts(const PlanParams& p, Smem smem) {
  const std::uint32_t tid = thread(), warp = tid / 32, lane = tid % 32;
  const auto entry = [&](std::int32_t n) {  // beyond the last one: that one
    const std::int64_t at = p.cu_seqlens[smaller(n, p.N)];
    return static_cast<std::int32_t>(at < 0 ? 0 : at > p.T ? p.T : at);
  };
  Smem largest = smem + PlanShared::largest, other = largest + 4 * kPlanWarps;
  std::int32_t before = 0;
#pragma unroll 1
  for (std::int32_t first = 0; first < p.N; first += kPlanThreads) {
    const std::int32_t n = first + tid;
    const std::int32_t next = entry(n + 1);
    std::int32_t begin = entry(n);
    for (std::uint32_t step = 1; step < 32; step *= 2)
      begin = larger(begin, shuffle(begin, lane >= step ? lane - step : lane));
    if (lane == 31) store(largest + 4 * warp, std::uint32_t(begin));
    barrier(Barrier::plan, kPlanThreads);
    begin = larger(begin, before);
    for (std::uint32_t i = 0; i < kPlanWarps; ++i) {
      const auto x = static_cast<std::int32_t>(load_u32(largest + 4 * i));
      before = larger(before, x);
      begin = larger(begin, i < warp ? x : 0);
    }
    const Smem used = largest;
    largest = other;
    other = used;

    const std::int32_t tokens = larger(begin, next) - begin;
    const Smem at = smem + 4 * n;
    if (n < p.N) {
      store(at + PlanShared::starts, std::uint32_t(begin));
      store(at + PlanShared::chunks, std::uint32_t((tokens + kChunk - 1) / kChunk));
      if (n == p.N - 1) store(at + PlanShared::starts + 4, std::uint32_t(begin + tokens));
    } else if (n < ((p.N + 3) & ~3)) {
      store(at + PlanShared::chunks, ~0u);
    }
  }
  barrier(Barrier::plan, kPlanThreads);
}

/// Writes `ranks`: most chunks first, then as given. A rank is the number of sequences that precede.
FLA_DEVICE void sort_sequences(const PlanParams& p, Smem smem) {
  const Plan& plan = p.schedule.plan;
  for (std::int32_t n = thread(); n < p.N; n += kPlanThreads) {
    const Smem at = smem + 4 * n;
    const std::uint32_t begin = load_u32(at + PlanShared::starts);
    const std::uint32_t tokens = load_u32(at + PlanShared::starts + 4) - begin;
    const auto chunks = static_cast<std::int32_t>(load_u32(at + PlanShared::chunks));
    std::int32_t rank = 0, before = 0;
#pragma unroll 1
    for (std::int32_t i = 0; i < p.N; i += 4) {
      const U4 four = load_u32x4(smem + PlanShared::chunks + 4 * i);
      const auto count = [&](std::uint32_t x, std::int32_t of) {
        const auto theirs = static_cast<std::int32_t>(x);
        if (theirs > chunks || (theirs == chunks && of < n)) {
          ++rank;
          before += theirs;
        }
      };
      count(four.x, i);
      count(four.y, i + 1);
      count(four.z, i + 2);
      count(four.w, i + 3);
    }
    const Smem to = smem + PlanShared::ranks + 16 * rank;
    store(to, U4{begin, tokens, std::uint32_t(chunks), std::uint32_t(before)});
    if (rank == p.N - 1) store(to + 16, U4{0, 0, 0, std::uint32_t(before + chunks)});
    if (block() == 0) {
      plan.sequences[rank] = {n, std::int32_t(begin), std::int32_t(tokens), chunks};
      if (rank == p.N - 1) *plan.tasks = (before + chunks) * p.HV;
    }
  }
  barrier(Barrier::plan, kPlanThreads);
}

/// Writes the list: an item a lane, and the chunks of 32 items to several warps in turn.
FLA_DEVICE void list_tasks(const PlanParams& p, Smem smem) {
  const Schedule& s = p.schedule;
  const std::int32_t warp = block() * kPlanWarps + thread() / 32, warps = blocks() * kPlanWarps,
                     lane = thread() % 32, parts = p.by_parts.divisor, units = (s.items + 31) / 32 * parts;
  const auto tasks_before = [&](std::int32_t item) {  // in order of items
    const std::int32_t rank = item / s.by_heads;
    const Ranked sequence = ranked(smem, rank);
    return sequence.before * p.HV + (item - rank * p.HV) * sequence.chunks;
  };
  for (std::int32_t unit = warp; unit < units; unit += warps) {
    const std::int32_t group = unit / p.by_parts, item = 32 * group + lane;
    if (item >= s.items) return;
    const std::int32_t rank = item / s.by_heads, round = item / s.by_streams, first = round * s.streams,
                       stream = item - first, end = smaller(first + s.streams, s.items),
                       last = (end - 1) / s.by_heads;
    const Ranked own = ranked(smem, rank);

    // Chunks of the stream's earlier items: rank by rank, or round by round where those are fewer.
    std::int32_t base = 0;
    if (p.HV >= s.streams) {
      std::int32_t from = 0;  // the stream's first round with an item of this rank, or of a later one
#pragma unroll 1
      for (std::int32_t r = 0; r <= rank; r += 4) {
        std::int32_t chunks[4];
        for (std::int32_t i = 0; i < 4; ++i) chunks[i] = ranked(smem, smaller(r + i, rank)).chunks;
        for (std::int32_t i = 0; i < 4; ++i) {
          const std::int32_t to = ((r + i + 1) * p.HV + s.streams - 1 - stream) / s.by_streams;
          base += (smaller(to, round) - from) * chunks[i];
          from = smaller(to, round);
        }
      }
    } else {
      for (std::int32_t i = stream; i < item; i += s.streams) base += ranked(smem, i / s.by_heads).chunks;
    }

    // Before a chunk come the earlier rounds, and of this one's items as many chunks, or all that they have:
    // those from the rank `ended` on have no more.
    const std::int32_t tasks = tasks_before(first), tasks_end = tasks_before(end);
    for (std::int32_t chunk = unit - group * parts; chunk < own.chunks; chunk += parts) {
      std::int32_t ended = rank + 1;
      for (std::int32_t to = last + 1; ended < to;) {
        const std::int32_t middle = (ended + to) / 2;
        if (ranked(smem, middle).chunks < chunk)
          to = middle;
        else
          ended = middle + 1;
      }
      const std::int32_t slice = tasks + chunk * (smaller(ended * p.HV, end) - first) + tasks_end -
                                 smaller(ranked(smem, ended).before * p.HV, tasks_end);
      const std::int32_t token = chunk * kChunk;
      s.plan.list[slice + stream] = {item - rank * p.HV, own.begin + token,
                                     128 * stream + smaller(own.tokens - token, kChunk), base + chunk};
      if (item == 0 && s.plan.slices) s.plan.slices[chunk] = slice;
    }
  }
}

FLA_DEVICE void plan(const PlanParams& p, Smem smem) {
  const Schedule& s = p.schedule;
  let_next_kernel_come();
  if (s.plan.sequences) {
    find_starts(p, smem);
    sort_sequences(p, smem);
    list_tasks(p, smem);
  }
  if (s.depth) {
    const std::int32_t at = block() * kPlanThreads + thread(), step = blocks() * kPlanThreads;
#pragma unroll 1
    for (std::int32_t i = at; i < s.streams * s.depth; i += step) s.ready[i * kReadyApart] = 0;
#pragma unroll 1
    for (std::int32_t i = at; i < 2 * s.streams; i += step) s.taken[i * kTakenApart] = 0;
    if (at == 0) *s.claim = p.claimed;
    if (at < 2) s.parts[at * kPartsApart] = 0;
  }
}

#ifdef __CUDACC__
static __global__ void __launch_bounds__(kPlanThreads) plan_kernel(const __grid_constant__ PlanParams p) {
  extern __shared__ std::uint8_t shared[];
  plan(p, static_cast<Smem>(__cvta_generic_to_shared(shared)));
}
#endif

}  // namespace fla::flash_kda
