#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "fla/ops/recurrence/call_of.h"

namespace fla::cuda {

/// A summary (recurrence.h) below the library's tensors: the call that leaves R, of one kind or the other,
/// and the one that leaves P, without what it starts from.
struct SummaryCall {
  bool of_gradients = false, with_P = false;
  RecurrenceCall forward{};
  BackwardCall backward{};
  RecurrenceCall transition{};
  LowRankPair pair{};
};

inline SummaryCall summary_call_of(const recurrence::SummaryArguments& args,
                                   const RecurrenceSummary& result) {
  SummaryCall call{.of_gradients = args.do_.defined(),
                   .with_P = result.P.defined(),
                   .transition = recurrence::transition_of(args, result, nullptr, nullptr),
                   .pair = recurrence::pair_of(args.call)};
  if (call.of_gradients) {
    call.backward = recurrence::backward_summary_of(args, result);
  } else {
    call.forward = recurrence::forward_summary_of(args, result);
  }
  return call;
}

/// The contract of kernels.h. A launch that fails may have written R and P.
std::size_t summary_workspace(const SummaryCall& call);
cudaError_t launch_summary(const SummaryCall& call, void* workspace, cudaStream_t stream);

}  // namespace fla::cuda
