#include "fla/ops/gated_rms_norm/gated_rms_norm.h"

#include <array>
#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/dispatch/call/dispatch.h"
#include "fla/ops/common/original_device.h"
#include "fla/ops/common/views_of.h"
#include "fla/ops/gated_rms_norm/call_of.h"
#include "fla/ops/gated_rms_norm/cpu_kernel.h"

#ifdef FLA_HAS_CUDA
#include <limits>

#include "fla/core/cuda_error.h"
#include "fla/ops/gated_rms_norm/cuda_kernel.h"
#else
#include "fla/core/cuda_devices.h"
#endif

namespace fla {

ArgumentTable GatedRmsNormArgs::arguments() {
  FLA_RETURN_ARGUMENT_TABLE(GatedRmsNormArgs, FLA_GATED_RMS_NORM_ARGUMENTS);
}

void validate_arguments(const GatedRmsNormArgs& args) {
  naming_op("gated_rms_norm", [&] {
    const AxisSizes sizes = check_arguments(GatedRmsNormArgs::arguments(), &args);
    if (sizes[Axis::V] < 1) throw InvalidArgument("x", "expected at least one channel, got V=0");
    if (args.eps && *args.eps < 0)
      throw InvalidArgument("eps", "expected 0 or more, got " + std::to_string(*args.eps));
    if (args.out.defined() && args.out.dtype() != args.x.dtype()) {
      throw InvalidArgument("out", "expected dtype " + std::string(name_of(args.x.dtype())) +
                                       " like x, got " + std::string(name_of(args.out.dtype())));
    }
  });
}

GatedRmsNormResult make_result(const GatedRmsNormArgs& args) {
  return {args.out.defined() ? Tensor::over(args.out)
                             : empty_on(args.x.shape(), args.x.dtype(), args.x.device(), args.stream)};
}

GatedRmsNormCall call_of(const GatedRmsNormArgs& args, const GatedRmsNormResult& result) {
  return {.B = args.x.size(0),
          .T = args.x.size(1),
          .HV = args.x.size(2),
          .V = args.x.size(3),
          .eps = eps_of(args),
          .silu = !args.use_sigmoid,
          .x = common::rows_of(args.x),
          .g = common::rows_of(args.g),
          .o = common::rows_of(result.o),
          .weight = common::parameters_of(args.weight)};
}

namespace {

#ifdef FLA_HAS_CUDA

GatedRmsNormResult gated_rms_norm_on_cuda(const GatedRmsNormArgs& args) {
  const Device device = args.x.device();
  common::check_cuda_device("x", device);
  if (cuda::gated_rms_norm_blocks(call_of(args, {})) > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgument("x",
                          "expected fewer rows on a CUDA device, got shape " + shape_text(args.x.shape()));
  }
  const CurrentDevice current(device.index);
  GatedRmsNormResult result = make_result(args);
  check_cuda(
      cuda::launch_gated_rms_norm(call_of(args, result), static_cast<cudaStream_t>(args.stream.handle)),
      "launching gated_rms_norm", BackendError::Wrote::nothing);
  return result;
}

#else

[[noreturn]] GatedRmsNormResult gated_rms_norm_on_cuda(const GatedRmsNormArgs& args) {
  common::check_cuda_device("x", args.x.device());
  throw BackendError(std::string(why_no_cuda_device()), BackendError::Wrote::nothing);
}

#endif

}  // namespace

DISPATCH("gated_rms_norm", GatedRmsNormResult, gated_rms_norm, const GatedRmsNormArgs& args) {
  if (!args.x.device().is_cpu())
    return naming_op("gated_rms_norm", [&] { return gated_rms_norm_on_cuda(args); });
  GatedRmsNormResult result = make_result(args);
  gated_rms_norm_on_cpu(call_of(args, result));
  return result;
}

GatedRmsNormResult GatedRmsNormBackend::gated_rms_norm(const GatedRmsNormArgs&) {
  not_implemented("gated_rms_norm");
}
Verdict GatedRmsNormBackend::gated_rms_norm_verifier(const GatedRmsNormArgs&) const { return accept(); }

}  // namespace fla
