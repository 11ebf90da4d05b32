#pragma once

#include "fla/core/threads.h"
#include "fla/ops/recurrence/call.h"

/// How many threads a call on a CPU gets, whichever kernels run it.
namespace fla::recurrence {

/// Decay, k^T S, the rank-one update and q^T S: 7 operations an element of the state and token.
inline int threads_for(const RecurrenceCall& call) {
  const double tokens = static_cast<double>(call.cu_seqlens.data ? call.T : call.N * call.T);
  return threads_worth(7.0 * tokens * call.HV * call.K * call.V);
}

}  // namespace fla::recurrence
