#include "fla/ops/step/original.h"

#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/ops/common/original_device.h"
#include "fla/ops/gated_rms_norm/cpu_kernel.h"
#include "fla/ops/recurrence/cpu/kernels.h"
#include "fla/ops/short_conv/cpu_kernel.h"
#include "fla/ops/step/call_of.h"

#ifdef FLA_HAS_CUDA
#include <limits>

#include "fla/core/cuda_error.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/step/cuda_kernels.h"
#else
#include "fla/core/cuda_devices.h"
#endif

namespace fla::step {
namespace {

/// The recurrence alone may throw while it runs, and leaves its pool as it was then: the convolution's is
/// written behind it.
StepResult run_on_cpu(const Arguments& args) {
  StepResult result = make_result(args);
  const Tensor qkv = Tensor::empty(args.x.shape(), args.x.dtype()),
               o = Tensor::empty(args.z.shape(), args.x.dtype());
  const StepCall call = call_of(args, result, {.qkv = qkv.view().data(), .o = o.view().data()});
  ShortConvCall outputs = call.conv, inputs = call.conv;
  outputs.final_state = {};
  inputs.o = {};
  short_conv_on_cpu(outputs);
  recurrence::recurrent_on_cpu(call.recurrence, {});
  gated_rms_norm_on_cpu(call.norm);
  short_conv_on_cpu(inputs);
  return result;
}

#ifdef FLA_HAS_CUDA

/// Throws InvalidArgument where a grid has no room for the call.
void check_cuda_call(const Arguments& args, const StepCall& call) {
  common::check_cuda_device("x", args.x.device());
  if (cuda::step_blocks(call) > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgument(
        "x", "expected fewer sequences and heads on a CUDA device, got shape " + shape_text(args.z.shape()));
  }
}

StepResult run_on_cuda(const Arguments& args) {
  const StepCall sizes = call_of(args, {});
  check_cuda_call(args, sizes);
  const Device device = args.x.device();
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.workspace, cuda::step_workspace(sizes), device, args.stream);
  StepResult result = make_result(args);
  const StepCall call = call_of(args, result, cuda::between_in(sizes, workspace.data()));
  const auto [error, launched] =
      cuda::launch_step(call, workspace.data(), static_cast<cudaStream_t>(args.stream.handle));
  if (error != cudaSuccess) {
    check_cuda(error, ("launching " + std::string(args.op.name)).c_str(),
               launched == 0 ? BackendError::Wrote::nothing : BackendError::Wrote::maybe);
  }
  return result;
}

std::size_t workspace_on_cuda(const Arguments& args) {
  const StepCall call = call_of(args, {});
  check_cuda_call(args, call);
  return cuda::step_workspace(call);
}

#else

[[noreturn]] StepResult run_on_cuda(const Arguments& args) {
  common::check_cuda_device("x", args.x.device());
  throw BackendError(std::string(why_no_cuda_device()), BackendError::Wrote::nothing);
}

std::size_t workspace_on_cuda(const Arguments& args) { run_on_cuda(args); }

#endif

}  // namespace

std::size_t original_workspace(const Arguments& args) {
  return naming_op(args.op.name, [&] { return workspace_on_cuda(args); });
}

StepResult run(const Arguments& args) {
  if (args.x.device().is_cpu()) return run_on_cpu(args);
  return naming_op(args.op.name, [&] { return run_on_cuda(args); });
}

}  // namespace fla::step
