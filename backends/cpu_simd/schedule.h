#pragma once

#include "backends/cpu_simd/head.h"
#include "backends/cpu_simd/targets.h"

namespace fla::cpu_simd {

/// Run a call with the kernels of a target, on up to num_threads() threads. Rule::low_rank goes
/// token by token either way. batch_invariant: what Policy::batch_invariant promises.
void run_chunked(const RecurrenceCall& call, const CallExtras& extras, const Target& target,
                 bool batch_invariant);
void run_recurrent(const RecurrenceCall& call, const CallExtras& extras, const Target& target);

/// The same of a step over rings.
void run_replay(const ReplayCall& call, const Target& target);

/// The same of gradients; neither Rule::low_rank nor a call that normalizes.
void run_backward(const BackwardCall& call, const Target& target);

/// Into how many parts the columns of each of `heads` heads are cut, so that `threads` threads are done
/// soonest.
std::int64_t parts_for(std::int64_t heads, std::int64_t threads, std::int64_t V);

}  // namespace fla::cpu_simd
