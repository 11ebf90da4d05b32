#include "backends/cpu_simd/schedule.h"

#include <algorithm>

#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/recurrence/work.h"

namespace fla::cpu_simd {

std::int64_t parts_for(std::int64_t heads, std::int64_t threads, std::int64_t V) {
  // Every part makes the operands of the head's chunks for itself: a sixth of the work on all columns.
  constexpr double kOwnShare = 0.15;
  constexpr std::int64_t kColumnsWorthAPart = 16;
  const auto time_with = [&](std::int64_t parts) {
    const std::int64_t rounds = (heads * parts + threads - 1) / threads;
    return static_cast<double>(rounds) * (kOwnShare + (1 - kOwnShare) / static_cast<double>(parts));
  };
  const std::int64_t most = std::clamp<std::int64_t>(V / kColumnsWorthAPart, 1, threads);
  std::int64_t best = 1;
  for (std::int64_t parts = 2; parts <= most; ++parts) {
    if (time_with(parts) < time_with(best)) best = parts;
  }
  return best;
}

void run_chunked(const RecurrenceCall& call, const CallExtras& extras, const Target& target,
                 bool batch_invariant) {
  const std::int64_t heads = call.N * call.HV;
  const int threads = recurrence::threads_for(call);
  const std::int64_t parts = parts_for(heads, threads, call.V);
  if (call.rule == Rule::low_rank) {
    const std::size_t scratch = target.recurrent->scratch_floats(call.K, call.V);
    parallel_for(heads * parts, threads, [&](std::int64_t task, int) {
      const std::int64_t head = task / parts;
      target.recurrent->run(call, extras, head, head + 1, task % parts, parts, thread_scratch(scratch));
    });
    return;
  }
  const std::size_t scratch = target.chunk->scratch_floats(call.K, call.V);
  parallel_for(heads * parts, threads, [&](std::int64_t task, int) {
    const std::int64_t head = task / parts;
    target.chunk->run(call, extras,
                      {.sequence = head / call.HV,
                       .value_head = head % call.HV,
                       .part = task % parts,
                       .parts = parts,
                       .cut_every = batch_invariant ? kInvariantTokens : 0},
                      thread_scratch(scratch));
  });
}

namespace {

/// Calls run(first, last, part, parts), part of parts of the columns of heads [first, last).
template <class Run>
void run_heads(std::int64_t heads, int threads, Run&& run) {
  if (heads < threads) {
    const std::int64_t parts = (threads + heads - 1) / std::max<std::int64_t>(heads, 1);
    parallel_for(heads * parts, threads,
                 [&](std::int64_t task, int) { run(task / parts, task / parts + 1, task % parts, parts); });
    return;
  }
  // Runs of heads long enough for the prefetch, several a thread where there are enough, so that none waits
  // for long.
  constexpr std::int64_t kHeadsWorthARun = 32, kRunsAThread = 4;
  const std::int64_t runs =
      std::clamp<std::int64_t>(heads / kHeadsWorthARun, threads, kRunsAThread * threads);
  parallel_for(runs, threads,
               [&](std::int64_t i, int) { run(heads * i / runs, heads * (i + 1) / runs, 0, 1); });
}

}  // namespace

void run_recurrent(const RecurrenceCall& call, const CallExtras& extras, const Target& target) {
  const std::size_t scratch = target.recurrent->scratch_floats(call.K, call.V);
  run_heads(call.N * call.HV, recurrence::threads_for(call),
            [&](std::int64_t first, std::int64_t last, std::int64_t part, std::int64_t parts) {
              target.recurrent->run(call, extras, first, last, part, parts, thread_scratch(scratch));
            });
}

void run_replay(const ReplayCall& replay, const Target& target) {
  const RecurrenceCall& call = replay.call;
  const std::size_t scratch = target.replay->scratch_floats(call.K, call.V);
  run_heads(call.N * call.HV, recurrence::threads_for(call),
            [&](std::int64_t first, std::int64_t last, std::int64_t part, std::int64_t parts) {
              target.replay->run(replay, first, last, part, parts, thread_scratch(scratch));
            });
}

void run_backward(const BackwardCall& call, const Target& target) {
  const std::int64_t key_heads = call.call.HV / call.call.group;
  recurrence::AllParameterSums sums(call.call);
  parallel_for(call.call.N * key_heads, recurrence::threads_for(call.call), [&](std::int64_t task, int) {
    const std::int64_t sequence = task / key_heads;
    const Sequence tokens = sequence_of(call.call, sequence);
    const std::size_t scratch = target.backward->scratch_floats(call.call, tokens.end - tokens.begin);
    target.backward->run(call, {sequence, task % key_heads, sums}, thread_scratch(scratch));
  });
  sums.store(call);
}

}  // namespace fla::cpu_simd
