#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/core/workspace.h"
#include "fla/ops/recurrence/arguments.h"

/// The arguments of steps, whichever op it is: what step.h's templates hand to the library.
namespace fla {

struct StepResult {
  Tensor o;  ///< [B, 1, HV, V], dtype of z
};

template <class Visitor>
void visit_results(StepResult& result, const Visitor& visitor) {
  visitor("out", result.o);
}

/// What a step is. Its argument struct has one as kOp.
struct StepOp {
  std::string_view name;
  RecurrenceOp recurrence;
};

template <class Args>
concept StepArgs =
    std::same_as<decltype(Args::kOp), const StepOp> && std::same_as<typename Args::Result, StepResult>;

namespace step {

struct Arguments {
  const StepOp& op;
  ArgumentTable table;
  const void* args;  ///< the op's struct
  const TensorView &x, &conv_weight, &conv_state, &g, &beta, &z, &state, &conv_bias, &A_log, &dt_bias,
      &norm_weight, &state_indices, &out;
  std::optional<float> scale, lower_bound, norm_eps;
  bool use_qk_l2norm_in_kernel, use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, safe_gate,
      state_v_first, norm_use_sigmoid;
  Stream stream;
  Workspace workspace;
};

/// Holds as long as `args` does.
template <StepArgs Args>
Arguments arguments_of(const Args& args) {
  return {.op = Args::kOp,
          .table = Args::arguments(),
          .args = &args,
          .x = args.x,
          .conv_weight = args.conv_weight,
          .conv_state = args.conv_state,
          .g = args.g,
          .beta = args.beta,
          .z = args.z,
          .state = args.state,
          .conv_bias = args.conv_bias,
          .A_log = args.A_log,
          .dt_bias = args.dt_bias,
          .norm_weight = args.norm_weight,
          .state_indices = args.state_indices,
          .out = args.out,
          .scale = args.scale,
          .lower_bound = args.lower_bound,
          .norm_eps = args.norm_eps,
          .use_qk_l2norm_in_kernel = args.use_qk_l2norm_in_kernel,
          .use_gate_in_kernel = args.use_gate_in_kernel,
          .use_beta_sigmoid_in_kernel = args.use_beta_sigmoid_in_kernel,
          .allow_neg_eigval = args.allow_neg_eigval,
          .safe_gate = args.safe_gate,
          .state_v_first = args.state_v_first,
          .norm_use_sigmoid = args.norm_use_sigmoid,
          .stream = args.stream,
          .workspace = args.workspace};
}

/// The sizes of a call, read off validated arguments.
struct Sizes {
  std::int64_t B, H, HV, K, V;
};
FLA_API Sizes sizes_of(const Arguments& args);

FLA_API void validate(const Arguments& args);
FLA_API StepResult make_result(const Arguments& args);

/// Bytes that the original kernels ask for.
FLA_API std::size_t original_workspace(const Arguments& args);

}  // namespace step
}  // namespace fla
