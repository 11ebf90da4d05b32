#pragma once

#include "backends/flash_kda/sizes.h"
#include "backends/flash_kda/work.cuh"

/// Before a forward pass whose sequences are known on the device only, or whose packets pass through places
/// used in turn: makes the tables of params.h from cu_seqlens and clears the counters. Every CTA makes all
/// tables, the same ones, but for its part of the list of works, which is long. cu_seqlens may
/// hold anything: entries are clamped to [0, T], and one that lies before another that precedes it
/// counts as that one, so that no two sequences share a token and there is room for all their chunks.
namespace fla::flash_kda {

inline constexpr std::uint32_t kPlanThreads = 1024;
/// Shared memory: where sequences begin, and the last one ends; their chunks as given, and sorted; two places
/// a thread for sums.
inline constexpr std::uint32_t kPlanShared = (3 * kMostSequences + 1 + 2 * kPlanThreads) * 4;

struct PlanParams {
  Schedule schedule;
  Indices cu_seqlens;
  std::int32_t T, N, HV;
  std::int32_t rounds;
  std::int32_t* round_base;  ///< [rounds + 1], scratch
  std::uint32_t claimed;     ///< works that are dealt out beforehand
};

FLA_DEVICE std::int32_t sequence_begin(const PlanParams& p, std::int32_t n) {
  const std::int64_t at = index_at(p.cu_seqlens, n);
  return static_cast<std::int32_t>(at < 0 ? 0 : at > p.T ? p.T : at);
}

/// Writes where the sequences begin, and where the last one ends.
FLA_DEVICE void find_starts(const PlanParams& p, Smem starts, Smem sums) {
  const std::int32_t tid = static_cast<std::int32_t>(thread());
  const std::int32_t each =
      p.N / static_cast<std::int32_t>(kPlanThreads) + 1;  // neighbours that a thread has
  const std::int32_t first = tid * each, last = first + each <= p.N + 1 ? first + each : p.N + 1;
  std::int32_t largest = 0;
  for (std::int32_t n = first; n < last; ++n) {
    const std::int32_t at = sequence_begin(p, n);
    largest = at > largest ? at : largest;
  }
  store(sums + 4 * tid, static_cast<std::uint32_t>(largest));
  barrier(1, kPlanThreads);
  largest = 0;
  for (std::int32_t before = 0; before < tid && before * each <= p.N; ++before) {
    const auto at = static_cast<std::int32_t>(load_u32(sums + 4 * before));
    largest = at > largest ? at : largest;
  }
  for (std::int32_t n = first; n < last; ++n) {
    const std::int32_t at = sequence_begin(p, n);
    largest = at > largest ? at : largest;
    store(starts + 4 * n, static_cast<std::uint32_t>(largest));
  }
  barrier(1, kPlanThreads);
}

/// The sum over the threads before this one; `total` over all. `sums` has kPlanThreads places twice.
FLA_DEVICE std::int32_t sum_before(Smem sums, std::int32_t x, std::int32_t& total) {
  const std::uint32_t tid = thread();
  std::uint32_t from = 0;
  store(sums + 4 * tid, std::uint32_t(x));
  barrier(1, kPlanThreads);
  std::int32_t sum = x;
  for (std::uint32_t step = 1; step < kPlanThreads; step *= 2) {
    if (tid >= step) sum += load_u32(sums + 4 * (from * kPlanThreads + tid - step));
    from ^= 1;
    store(sums + 4 * (from * kPlanThreads + tid), std::uint32_t(sum));
    barrier(1, kPlanThreads);
  }
  total = load_u32(sums + 4 * (from * kPlanThreads + kPlanThreads - 1));
  barrier(1, kPlanThreads);
  return sum - x;
}

FLA_DEVICE void plan(const PlanParams& p, Smem smem) {
  const Schedule& s = p.schedule;
  const std::uint32_t tid = thread();
  let_next_kernel_come();
  if (s.depth) {
    for (std::int32_t i = tid; i < s.streams * s.depth; i += kPlanThreads) s.ready[i * kReadyApart] = 0;
    for (std::int32_t i = tid; i < s.streams; i += kPlanThreads) s.taken[i * kTakenApart] = 0;
    if (tid == 0) *s.claim = p.claimed;
  }
  if (!s.plan.sequences) return;

  const Smem given = smem, sorted = given + 4 * kMostSequences, sums = sorted + 4 * kMostSequences,
             starts = sums + 8 * kPlanThreads;
  find_starts(p, starts, sums);
  const auto chunks_of = [&](std::int32_t n, std::int32_t& begin, std::int32_t& tokens) {
    begin = static_cast<std::int32_t>(load_u32(starts + 4 * n));
    tokens = static_cast<std::int32_t>(load_u32(starts + 4 * n + 4)) - begin;
    return (tokens + kChunk - 1) / kChunk;
  };
  for (std::int32_t n = tid; n < p.N; n += kPlanThreads) {
    std::int32_t begin, tokens;
    store(given + 4 * n, std::uint32_t(chunks_of(n, begin, tokens)));
  }
  barrier(1, kPlanThreads);
  for (std::int32_t n = tid; n < p.N; n += kPlanThreads) {
    std::int32_t begin, tokens, rank = 0;
    const std::int32_t chunks = chunks_of(n, begin, tokens);
    for (std::int32_t i = 0; i < p.N; ++i) {
      const std::int32_t other = load_u32(given + 4 * i);
      rank += other > chunks || (other == chunks && i < n);
    }
    s.plan.sequences[rank] = {n, begin, tokens, chunks};
    store(sorted + 4 * rank, std::uint32_t(chunks));
  }
  barrier(1, kPlanThreads);
  const auto chunks_of_item = [&](std::int32_t item) {
    return std::int32_t(load_u32(sorted + 4 * (item / p.HV)));
  };

  // A round has as many slices as its first item chunks.
  std::int32_t slices = 0;
  for (std::int32_t first = 0; first < p.rounds; first += kPlanThreads) {
    const std::int32_t round = first + tid;
    std::int32_t total;
    const std::int32_t before =
        sum_before(sums, round < p.rounds ? chunks_of_item(round * s.streams) : 0, total);
    if (round < p.rounds) p.round_base[round] = slices + before;
    slices += total;
  }
  if (tid == 0) p.round_base[p.rounds] = slices;
  for (std::int32_t stream = tid; stream < s.streams; stream += kPlanThreads) {
    std::int32_t before = 0;
    for (std::int32_t item = stream; item < s.items; item += s.streams) {
      s.plan.base[item] = before;
      before += chunks_of_item(item);
    }
  }
  barrier(1, kPlanThreads);

  std::int32_t works = 0;
  for (std::int32_t first = 0; first < slices; first += kPlanThreads) {
    const std::int32_t slice = first + tid;
    std::int32_t round = 0, chunk = 0, active = 0;
    if (slice < slices) {
      for (std::int32_t end = p.rounds; end - round > 1;) {  // the last round that begins here or before
        const std::int32_t middle = (round + end) / 2;
        (p.round_base[middle] <= slice ? round : end) = middle;
      }
      chunk = slice - p.round_base[round];
      std::int32_t longer = 0;  // sequences with more than `chunk` chunks
      for (std::int32_t end = p.N; end > longer;) {
        const std::int32_t middle = (longer + end) / 2;
        if (std::int32_t(load_u32(sorted + 4 * middle)) > chunk)
          longer = middle + 1;
        else
          end = middle;
      }
      const std::int32_t items = longer * p.HV - round * s.streams;
      active = items < s.streams ? items : s.streams;
    }
    std::int32_t total;
    const std::int32_t before = sum_before(sums, active, total);
    if (slice < slices) s.plan.slices[slice] = {works + before, round, chunk, active};
    works += total;
  }
  if (tid == 0) *s.plan.works = works;
  barrier(1, kPlanThreads);

  // A slice a warp, CTAs and warps in turn.
  const std::uint32_t lane = tid & 31;
  for (std::int32_t i = block() * (kPlanThreads / 32) + tid / 32; i < slices;
       i += blocks() * (kPlanThreads / 32)) {
    const Slice slice = s.plan.slices[i];
    for (std::int32_t stream = lane; stream < slice.active; stream += 32) {
      const std::int32_t item = slice.round * s.streams + stream, rank = item / s.by_heads;
      const Sequence sequence = s.plan.sequences[rank];
      const std::int32_t token = slice.chunk * kChunk, left = sequence.tokens - token;
      s.plan.list[slice.first + stream] = {item - rank * p.HV, sequence.begin + token,
                                           128 * stream + (left < kChunk ? left : kChunk),
                                           s.plan.base[item] + slice.chunk};
    }
  }
}

#ifdef __CUDACC__
static __global__ void __launch_bounds__(kPlanThreads) plan_kernel(const __grid_constant__ PlanParams p) {
  extern __shared__ std::uint8_t shared[];
  plan(p, static_cast<Smem>(__cvta_generic_to_shared(shared)));
}
#endif

}  // namespace fla::flash_kda
