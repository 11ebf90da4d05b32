#include "fla/ops/short_conv/short_conv.h"

#include <algorithm>
#include <array>
#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/dispatch/call/dispatch.h"
#include "fla/dispatch/choice/accepting_backends.h"
#include "fla/ops/common/original_device.h"
#include "fla/ops/common/sequence_indices.h"
#include "fla/ops/common/views_of.h"
#include "fla/ops/short_conv/call_of.h"
#include "fla/ops/short_conv/cpu_kernel.h"

#ifdef FLA_HAS_CUDA
#include <limits>

#include "fla/core/cuda_error.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/short_conv/cuda_kernel.h"
#else
#include "fla/core/cuda_devices.h"
#endif

namespace fla {

ArgumentTable ShortConvArgs::arguments() {
  FLA_RETURN_ARGUMENT_TABLE(ShortConvArgs, FLA_SHORT_CONV_ARGUMENTS);
}

void validate_arguments(const ShortConvArgs& args) {
  naming_op("short_conv", [&] {
    const AxisSizes sizes = check_arguments(ShortConvArgs::arguments(), &args);
    if (sizes[Axis::D] < 1) throw InvalidArgument("x", "expected at least one channel, got D=0");
    if (sizes[Axis::W] < kMinConvWidth || sizes[Axis::W] > kMaxConvWidth) {
      throw InvalidArgument("weight", "expected W from 2 to 4, got " + std::to_string(sizes[Axis::W]));
    }
    if (args.out.defined() && args.out.dtype() != args.x.dtype()) {
      throw InvalidArgument("out", "expected dtype " + std::string(name_of(args.x.dtype())) +
                                       " like x, got " + std::string(name_of(args.out.dtype())));
    }
    common::check_indices({.cu_seqlens = args.cu_seqlens,
                           .state_indices = args.state_indices,
                           .state_write_indices = args.state_write_indices,
                           .initial_state = args.initial_state,
                           .final_state = args.final_state,
                           .output_final_state = args.output_final_state,
                           .device = args.x.device(),
                           .stream = args.stream},
                          sizes);
  });
}

namespace {

std::int64_t sequences_of(const ShortConvArgs& args) {
  return args.cu_seqlens.defined() ? args.cu_seqlens.size(0) - 1 : args.x.size(0);
}

}  // namespace

ShortConvResult make_result(const ShortConvArgs& args) {
  ShortConvResult result;
  const Device device = args.x.device();
  result.o = args.out.defined() ? Tensor::over(args.out)
                                : empty_on(args.x.shape(), args.x.dtype(), device, args.stream);
  common::clear_behind_sequences(result.o, args.cu_seqlens, args.stream);
  if (args.final_state.defined()) {
    result.final_state = Tensor::over(args.final_state);
  } else if (args.output_final_state) {
    const std::array shape{sequences_of(args), args.x.size(2), args.weight.size(1) - 1};
    const DType dtype = args.initial_state.defined() ? args.initial_state.dtype() : DType::f32;
    result.final_state = empty_on(shape, dtype, device, args.stream);
  }
  return result;
}

namespace {

/// [B, T, D].
common::Rows channel_rows_of(const TensorView& tensor) {
  if (!tensor.defined()) return {};
  const TensorView with_head(
      tensor.data(), tensor.dtype(),
      std::array{tensor.size(0), tensor.size(1), std::int64_t{1}, tensor.size(2)},
      std::array{tensor.stride(0), tensor.stride(1), std::int64_t{0}, tensor.stride(2)});
  return common::rows_of(with_head);
}

/// [P, D, W - 1].
common::States inputs_of(const TensorView& tensor) {
  if (!tensor.defined()) return {};
  return {.data = tensor.data(),
          .dtype = tensor.dtype(),
          .slots = tensor.size(0),
          .slot = tensor.stride(0),
          .key = tensor.stride(1),
          .value = tensor.stride(2)};
}

}  // namespace

ShortConvCall call_of(const ShortConvArgs& args, const ShortConvResult& result) {
  ShortConvCall call{.T = args.x.size(1),
                     .N = sequences_of(args),
                     .D = args.x.size(2),
                     .W = static_cast<int>(args.weight.size(1)),
                     .silu = args.use_silu,
                     .x = channel_rows_of(args.x),
                     .o = channel_rows_of(result.o),
                     .weight = common::parameters_of(args.weight),
                     .bias = common::parameters_of(args.bias),
                     .initial_state = inputs_of(args.initial_state),
                     .final_state = inputs_of(result.final_state),
                     .read_slots = common::indices_of(args.state_indices),
                     .write_slots = common::indices_of(args.state_write_indices),
                     .cu_seqlens = common::indices_of(args.cu_seqlens)};
  if (!call.initial_state.data)
    call.initial_state.slots = call.final_state.data ? call.final_state.slots : common::kAnySlot;
  return call;
}

namespace {

#ifdef FLA_HAS_CUDA

void check_cuda_call(const ShortConvArgs& args, const ShortConvCall& call) {
  common::check_cuda_device("x", args.x.device());
  if (cuda::short_conv_blocks(call) > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgument(
        "x", "expected fewer tokens and channels on a CUDA device, got shape " + shape_text(args.x.shape()));
  }
}

ShortConvResult short_conv_on_cuda(const ShortConvArgs& args) {
  const ShortConvCall sizes = call_of(args, {});
  check_cuda_call(args, sizes);
  const Device device = args.x.device();
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.workspace, cuda::short_conv_workspace(sizes), device, args.stream);
  ShortConvResult result = make_result(args);
  check_cuda(cuda::launch_short_conv(call_of(args, result), workspace.data(),
                                     static_cast<cudaStream_t>(args.stream.handle)),
             "launching short_conv", BackendError::Wrote::nothing);
  return result;
}

std::size_t original_workspace(const ShortConvArgs& args) {
  const ShortConvCall call = call_of(args, {});
  check_cuda_call(args, call);
  return cuda::short_conv_workspace(call);
}

#else

[[noreturn]] ShortConvResult short_conv_on_cuda(const ShortConvArgs& args) {
  common::check_cuda_device("x", args.x.device());
  throw BackendError(std::string(why_no_cuda_device()), BackendError::Wrote::nothing);
}

std::size_t original_workspace(const ShortConvArgs& args) { short_conv_on_cuda(args); }

#endif

}  // namespace

DISPATCH("short_conv", ShortConvResult, short_conv, const ShortConvArgs& args) {
  if (!args.x.device().is_cpu()) return naming_op("short_conv", [&] { return short_conv_on_cuda(args); });
  ShortConvResult result = make_result(args);
  short_conv_on_cpu(call_of(args, result));
  return result;
}

std::size_t workspace_size(const ShortConvArgs& args) {
  validate_arguments(args);
  if (args.x.device().is_cpu()) return 0;
  std::size_t bytes = naming_op("short_conv", [&] { return original_workspace(args); });
  ShortConvArgs without = args;  // a verifier may refuse a workspace that is too small for it
  without.workspace = {};
  for (const auto& accepting : dispatch::accepting_backends("short_conv", without)) {
    if (const auto* backend = dynamic_cast<const ShortConvBackend*>(accepting.backend.get()))
      bytes = std::max(bytes, backend->workspace_size(without));
  }
  return bytes;
}

ShortConvResult ShortConvBackend::short_conv(const ShortConvArgs&) { not_implemented("short_conv"); }
Verdict ShortConvBackend::short_conv_verifier(const ShortConvArgs&) const { return accept(); }
std::size_t ShortConvBackend::workspace_size(const ShortConvArgs&) const { return 0; }

}  // namespace fla
