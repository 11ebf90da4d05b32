#include "fla/ops/merge/merge.h"

#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/common/original_device.h"
#include "fla/ops/common/views_of.h"
#include "fla/ops/merge/call_of.h"
#include "fla/ops/merge/cpu_kernel.h"

#ifdef FLA_HAS_CUDA
#include <limits>

#include "fla/core/cuda_error.h"
#include "fla/ops/merge/cuda_kernel.h"
#else
#include "fla/core/cuda_devices.h"
#endif

namespace fla {

ArgumentTable MergeArgs::arguments() { FLA_RETURN_ARGUMENT_TABLE(MergeArgs, FLA_MERGE_ARGUMENTS); }

void validate_arguments(const MergeArgs& args) {
  naming_op("merge", [&] {
    const AxisSizes sizes = check_arguments(MergeArgs::arguments(), &args);
    for (const auto& [axis, name] : {std::pair{Axis::K, "K"}, {Axis::V, "V"}}) {
      if (sizes[axis] < 1 || sizes[axis] > 256) {
        throw InvalidArgument(
            "R", "expected " + std::string(name) + " from 1 to 256, got " + std::to_string(sizes[axis]));
      }
    }
  });
}

MergeResult make_result(const MergeArgs& args) {
  if (args.final_state.defined()) return {Tensor::over(args.final_state)};
  return {empty_on(args.R.shape().subspan(1), DType::f32, args.R.device(), args.stream)};
}

MergeCall call_of(const MergeArgs& args, const MergeResult& result) {
  const int key = args.state_v_first ? 4 : 3, value = args.state_v_first ? 3 : 4;
  const bool diagonal = args.P.rank() == 4;
  return {.C = args.R.size(0),
          .N = args.R.size(1),
          .HV = static_cast<int>(args.R.size(2)),
          .K = static_cast<int>(args.R.size(key)),
          .V = static_cast<int>(args.R.size(value)),
          .diagonal = diagonal,
          .R = args.R.as<float>(),
          .P = args.P.as<float>(),
          .R_summary = args.R.stride(0),
          .R_sequence = args.R.stride(1),
          .R_head = args.R.stride(2),
          .R_key = args.R.stride(key),
          .R_value = args.R.stride(value),
          .P_summary = args.P.stride(0),
          .P_sequence = args.P.stride(1),
          .P_head = args.P.stride(2),
          .P_row = args.P.stride(3),
          .P_column = diagonal ? 0 : args.P.stride(4),
          .initial_state = common::states_of(args.initial_state, args.state_v_first),
          .final_state = common::states_of(result.final_state, args.state_v_first)};
}

namespace {

#ifdef FLA_HAS_CUDA

MergeResult merge_on_cuda(const MergeArgs& args) {
  const Device device = args.R.device();
  common::check_cuda_device("R", device);
  if (cuda::merge_blocks(call_of(args, {})) > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgument("R",
                          "expected fewer heads on a CUDA device, got shape " + shape_text(args.R.shape()));
  }
  const CurrentDevice current(device.index);
  MergeResult result = make_result(args);
  check_cuda(cuda::launch_merge(call_of(args, result), static_cast<cudaStream_t>(args.stream.handle)),
             "launching merge", BackendError::Wrote::nothing);
  return result;
}

#else

[[noreturn]] MergeResult merge_on_cuda(const MergeArgs& args) {
  common::check_cuda_device("R", args.R.device());
  throw BackendError(std::string(why_no_cuda_device()), BackendError::Wrote::nothing);
}

#endif

}  // namespace

DISPATCH("merge", MergeResult, merge, const MergeArgs& args) {
  if (!args.R.device().is_cpu()) return naming_op("merge", [&] { return merge_on_cuda(args); });
  MergeResult result = make_result(args);
  merge_on_cpu(call_of(args, result));
  return result;
}

MergeResult MergeBackend::merge(const MergeArgs&) { not_implemented("merge"); }
Verdict MergeBackend::merge_verifier(const MergeArgs&) const { return accept(); }

}  // namespace fla
