#include "fla/ops/step/arguments.h"

#include <string>
#include <utility>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/ops/common/sequence_indices.h"
#include "fla/ops/short_conv/call.h"
#include "fla/ops/step/call_of.h"

namespace fla::step {
namespace {

constexpr std::int64_t kMaxChannels = 256;

std::string sized(const char* axis, std::int64_t size) {
  return std::string(axis) + "=" + std::to_string(size);
}

void check_sizes(const AxisSizes& sizes) {
  const std::int64_t T = sizes[Axis::T], D = sizes[Axis::D], W = sizes[Axis::W], HV = sizes[Axis::HV],
                     K = sizes[Axis::K], V = sizes[Axis::V];
  if (T != 1) throw InvalidArgument("x", "expected one token of every sequence, T=1, got " + sized("T", T));
  if (W < kMinConvWidth || W > kMaxConvWidth)
    throw InvalidArgument("conv_weight", "expected W from 2 to 4, got " + std::to_string(W));
  for (const auto& [axis, size] : {std::pair{"K", K}, {"V", V}}) {
    if (size < 1 || size > kMaxChannels) {
      throw InvalidArgument("state",
                            "expected " + std::string(axis) + " from 1 to 256, got " + std::to_string(size));
    }
  }
  if (HV < 1) throw InvalidArgument("state", "expected at least one head, got HV=0");
  const std::int64_t keys = D - HV * V, H = keys / (2 * K);
  if (H < 1 || keys % (2 * K) != 0 || HV % H != 0) {
    throw InvalidArgument("x", "expected D = 2 H K + HV V of " + sized("HV", HV) + ", " + sized("K", K) +
                                   ", " + sized("V", V) + " and an H that HV is a multiple of, got " +
                                   sized("D", D));
  }
}

void check_options(const Arguments& args) {
  if (args.norm_eps && !(*args.norm_eps >= 0))
    throw InvalidArgument("norm_eps", "expected 0 or more, got " + std::to_string(*args.norm_eps));
  if (args.out.defined() && args.out.dtype() != args.z.dtype()) {
    throw InvalidArgument("out", "expected dtype " + std::string(name_of(args.z.dtype())) + " like z, got " +
                                     std::string(name_of(args.out.dtype())));
  }
}

}  // namespace

Sizes sizes_of(const Arguments& args) {
  const bool v_first = args.state_v_first;
  Sizes sizes{.B = args.x.size(0),
              .H = 0,
              .HV = args.state.size(1),
              .K = args.state.size(v_first ? 3 : 2),
              .V = args.state.size(v_first ? 2 : 3)};
  sizes.H = (args.x.size(2) - sizes.HV * sizes.V) / (2 * sizes.K);
  return sizes;
}

void validate(const Arguments& args) {
  naming_op(args.op.name, [&] {
    const AxisSizes sizes = check_arguments(args.table, args.args);
    check_sizes(sizes);
    check_options(args);
    with_recurrence(args, {}, recurrence::check_gate);
    common::check_indices({.cu_seqlens = common::kNoIndex,
                           .state_indices = args.state_indices,
                           .state_write_indices = common::kNoIndex,
                           .initial_state = args.state,
                           .final_state = args.state,
                           .output_final_state = false,
                           .device = args.x.device(),
                           .stream = args.stream},
                          sizes);
  });
}

StepResult make_result(const Arguments& args) {
  return {args.out.defined() ? Tensor::over(args.out)
                             : empty_on(args.z.shape(), args.z.dtype(), args.z.device(), args.stream)};
}

}  // namespace fla::step
