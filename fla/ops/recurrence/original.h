#pragma once

#include "fla/ops/recurrence/arguments.h"

/// The original kernels of the family: every call that validates, of every op, on CPUs and on CUDA devices
/// from sm_80 on. On CUDA they return when everything is on args.stream; with results and workspace given
/// they neither allocate nor wait. Throw InvalidArgument, before anything has run, where the tensors' device
/// cannot be used (in a build without CUDA only CPUs can) and for a workspace that does not do; BackendError
/// or DeviceLost as CUDA answers.
namespace fla::recurrence {

RecurrenceResult run_chunk(const Arguments& args);
RecurrenceResult run_recurrent(const Arguments& args);
RecurrenceGradients run_backward(const BackwardArguments& args);
ReplayResult run_replay(const ReplayArguments& args);
RecurrenceSummary run_summary(const SummaryArguments& args);

template <RecurrenceArgs Args>
RecurrenceResult run_chunk(const Args& args) {
  return run_chunk(arguments_of(args));
}
template <RecurrenceArgs Args>
RecurrenceResult run_recurrent(const Args& args) {
  return run_recurrent(arguments_of(args));
}

template <fla::BackwardArgs Args>
RecurrenceGradients run_backward(const Args& args) {
  return run_backward(backward_arguments_of(args));
}
template <fla::SummaryArgs Args>
RecurrenceSummary run_summary(const Args& args) {
  return run_summary(summary_arguments_of(args));
}

template <fla::ReplayArgs Args>
ReplayResult run_replay(const Args& args) {
  return run_replay(replay_arguments_of(args));
}
template <fla::FoldArgs Args>
FoldResult run_fold(const Args& args) {
  (void)run_replay(replay_arguments_of(args));
  return {};
}

}  // namespace fla::recurrence
