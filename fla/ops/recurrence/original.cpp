#include "fla/ops/recurrence/original.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"
#include "fla/ops/common/original_device.h"
#include "fla/ops/recurrence/call_of.h"
#include "fla/ops/recurrence/cpu/kernels.h"

#ifdef FLA_HAS_CUDA
#include "fla/core/cuda_error.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/summary.h"
#endif

namespace fla::recurrence {
namespace {

RecurrenceResult run_on_cpu(const Arguments& args, void (*kernel)(const RecurrenceCall&, const CallExtras&)) {
  RecurrenceResult result = make_result(args);
  kernel(call_of(args, result), extras_of(args));
  return result;
}

void check_device(Device device) { common::check_cuda_device("q", device); }

#ifdef FLA_HAS_CUDA

/// Grids are cut into heads of sequences, 32 values a block.
void check_grid(const RecurrenceCall& call) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t heads = call.N * call.HV, most = kMost / ((call.V + 31) / 32);
  if (heads > most) {
    throw InvalidArgument("v", "expected at most " + std::to_string(most) +
                                   " heads of V=" + std::to_string(call.V) +
                                   " in all sequences on a CUDA device, got " + std::to_string(heads));
  }
}

struct Kernel {
  std::string_view RecurrenceOp::*function;
  std::size_t (*workspace)(const RecurrenceCall& call, const CallExtras& extras);
  cudaError_t (*launch)(const RecurrenceCall& call, const CallExtras& extras, void* workspace,
                        cudaStream_t stream);
};
constexpr Kernel kChunk{&RecurrenceOp::chunk, cuda::chunk_workspace, cuda::launch_chunk};
constexpr Kernel kRecurrent{&RecurrenceOp::recurrent, cuda::recurrent_workspace, cuda::launch_recurrent};

void check_launch(cudaError_t error, std::string_view function, BackendError::Wrote wrote) {
  if (error != cudaSuccess) check_cuda(error, ("launching " + std::string(function)).c_str(), wrote);
}

RecurrenceResult run_on_cuda(const Arguments& args, const Kernel& kernel) {
  const Device device = args.q.device();
  check_device(device);
  const RecurrenceCall call = call_of(args, {});
  check_grid(call);
  if (args.v.numel() == 0 && !args.final_state.defined() && !args.output_final_state)
    return make_result(args);
  const CurrentDevice current(device.index);
  const CallExtras extras = extras_of(args);
  const CallWorkspace workspace(args.workspace, kernel.workspace(call, extras), device, args.stream);
  RecurrenceResult result = make_result(args);
  check_launch(kernel.launch(call_of(args, result), extras, workspace.data(),
                             static_cast<cudaStream_t>(args.stream.handle)),
               args.op.*kernel.function, BackendError::Wrote::nothing);
  return result;
}

ReplayResult run_on_cuda(const ReplayArguments& args) {
  const Device device = args.state.device();
  common::check_cuda_device("state", device);
  const ReplayCall call = call_of(args, {});
  check_grid(call.call);
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.call.workspace, cuda::replay_workspace(call), device, args.call.stream);
  ReplayResult result = make_result(args);
  const RecurrenceOp& op = args.call.op;
  check_launch(cuda::launch_replay(call_of(args, result), workspace.data(),
                                   static_cast<cudaStream_t>(args.call.stream.handle)),
               args.folds ? op.fold : op.replay, BackendError::Wrote::nothing);
  return result;
}

RecurrenceGradients run_on_cuda(const BackwardArguments& args) {
  const Device device = args.call.q.device();
  check_device(device);
  const BackwardCall call = call_of(args, {});
  check_grid(call.call);
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.call.workspace, cuda::backward_workspace(call), device,
                                args.call.stream);
  RecurrenceGradients result = make_result(args);
  check_launch(cuda::launch_backward(call_of(args, result), workspace.data(),
                                     static_cast<cudaStream_t>(args.call.stream.handle)),
               args.call.op.backward, BackendError::Wrote::maybe);
  return result;
}

void check_summary(const SummaryArguments& args, const cuda::SummaryCall& call) {
  check_device(args.call.q.device());
  check_grid(call.of_gradients ? call.backward.call : call.forward);
  check_grid(call.transition);
}

RecurrenceSummary run_on_cuda(const SummaryArguments& args) {
  const cuda::SummaryCall call = cuda::summary_call_of(args, {});
  check_summary(args, call);
  const Device device = args.call.q.device();
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.call.workspace, cuda::summary_workspace(call), device, args.call.stream);
  RecurrenceSummary result = make_result(args);
  check_launch(cuda::launch_summary(cuda::summary_call_of(args, result), workspace.data(),
                                    static_cast<cudaStream_t>(args.call.stream.handle)),
               args.call.op.summary, BackendError::Wrote::maybe);
  return result;
}

}  // namespace

std::size_t original_workspace(const SummaryArguments& args) {
  return naming_op(args.call.op.name, [&] {
    const cuda::SummaryCall call = cuda::summary_call_of(args, {});
    check_summary(args, call);
    return cuda::summary_workspace(call);
  });
}
std::size_t original_workspace(const Arguments& args) {
  return naming_op(args.op.name, [&] {
    check_device(args.q.device());
    const RecurrenceCall call = call_of(args, {});
    check_grid(call);
    const CallExtras extras = extras_of(args);
    return std::max(cuda::chunk_workspace(call, extras), cuda::recurrent_workspace(call, extras));
  });
}
std::size_t original_workspace(const BackwardArguments& args) {
  return naming_op(args.call.op.name, [&] {
    check_device(args.call.q.device());
    const BackwardCall call = call_of(args, {});
    check_grid(call.call);
    return cuda::backward_workspace(call);
  });
}
std::size_t original_workspace(const ReplayArguments& args) {
  return naming_op(args.call.op.name, [&] {
    common::check_cuda_device("state", args.state.device());
    const ReplayCall call = call_of(args, {});
    check_grid(call.call);
    return cuda::replay_workspace(call);
  });
}

#else

[[noreturn]] void refuse(Device device) {
  check_device(device);
  throw BackendError(std::string(why_no_cuda_device()), BackendError::Wrote::nothing);
}
struct Kernel {};
constexpr Kernel kChunk, kRecurrent;
RecurrenceResult run_on_cuda(const Arguments& args, const Kernel&) { refuse(args.q.device()); }
RecurrenceGradients run_on_cuda(const BackwardArguments& args) { refuse(args.call.q.device()); }
ReplayResult run_on_cuda(const ReplayArguments& args) { refuse(args.state.device()); }
RecurrenceSummary run_on_cuda(const SummaryArguments& args) { refuse(args.call.q.device()); }

}  // namespace

std::size_t original_workspace(const Arguments& args) {
  return naming_op(args.op.name, [&]() -> std::size_t { refuse(args.q.device()); });
}
std::size_t original_workspace(const BackwardArguments& args) {
  return naming_op(args.call.op.name, [&]() -> std::size_t { refuse(args.call.q.device()); });
}
std::size_t original_workspace(const ReplayArguments& args) {
  return naming_op(args.call.op.name, [&]() -> std::size_t { refuse(args.state.device()); });
}
std::size_t original_workspace(const SummaryArguments& args) {
  return naming_op(args.call.op.name, [&]() -> std::size_t { refuse(args.call.q.device()); });
}

#endif

namespace {

RecurrenceSummary run_on_cpu(const SummaryArguments& args) {
  RecurrenceSummary result = make_result(args);
  const CallExtras extras{.pair = pair_of(args.call)};
  if (args.do_.defined()) {
    backward_on_cpu(backward_summary_of(args, result));
  } else {
    chunk_on_cpu(forward_summary_of(args, result), extras);
  }
  if (!result.P.defined()) return result;
  const std::int64_t size = args.call.op.rule == Rule::additive ? 1 : args.call.q.size(3);
  const float zero = 0;
  std::vector<float> identity(static_cast<std::size_t>(size * size));
  for (std::int64_t i = 0; i < size; ++i) identity[static_cast<std::size_t>(i * (size + 1))] = 1;
  chunk_on_cpu(transition_of(args, result, &zero, identity.data()), extras);
  return result;
}

}  // namespace

RecurrenceResult run_chunk(const Arguments& args) {
  if (args.q.device().is_cpu()) return run_on_cpu(args, chunk_on_cpu);
  return naming_op(args.op.name, [&] { return run_on_cuda(args, kChunk); });
}
RecurrenceGradients run_backward(const BackwardArguments& args) {
  if (!args.call.q.device().is_cpu()) return naming_op(args.call.op.name, [&] { return run_on_cuda(args); });
  RecurrenceGradients result = make_result(args);
  backward_on_cpu(call_of(args, result));
  return result;
}
ReplayResult run_replay(const ReplayArguments& args) {
  if (!args.state.device().is_cpu()) return naming_op(args.call.op.name, [&] { return run_on_cuda(args); });
  ReplayResult result = make_result(args);
  replay_on_cpu(call_of(args, result));
  return result;
}
RecurrenceSummary run_summary(const SummaryArguments& args) {
  if (args.call.q.device().is_cpu()) return run_on_cpu(args);
  return naming_op(args.call.op.name, [&] { return run_on_cuda(args); });
}
RecurrenceResult run_recurrent(const Arguments& args) {
  if (args.q.device().is_cpu()) return run_on_cpu(args, recurrent_on_cpu);
  return naming_op(args.op.name, [&] { return run_on_cuda(args, kRecurrent); });
}

}  // namespace fla::recurrence
