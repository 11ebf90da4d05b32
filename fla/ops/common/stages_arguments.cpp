#include <array>
#include <string>

#include "fla/core/errors.h"
#include "fla/ops/common/stages.h"
#include "fla/ops/common/tril.h"

namespace fla {
namespace {

StageResult result_like(const TensorView& input, const TensorView& out) {
  return {out.defined() ? Tensor::over(out) : Tensor::empty(input.shape(), DType::f32, input.device())};
}

}  // namespace

ArgumentTable L2NormArgs::arguments() { FLA_RETURN_ARGUMENT_TABLE(L2NormArgs, FLA_L2_NORM_ARGUMENTS); }

ArgumentTable GateArgs::arguments() { FLA_RETURN_ARGUMENT_TABLE(GateArgs, FLA_GATE_ARGUMENTS); }

ArgumentTable SolveTrilArgs::arguments() {
  FLA_RETURN_ARGUMENT_TABLE(SolveTrilArgs, FLA_SOLVE_TRIL_ARGUMENTS);
}

void validate_arguments(const L2NormArgs& args) {
  naming_op("l2_norm", [&] { check_arguments(L2NormArgs::arguments(), &args); });
}

void validate_arguments(const GateArgs& args) {
  naming_op("gate", [&] {
    check_arguments(GateArgs::arguments(), &args);
    if (args.lower_bound && !(*args.lower_bound < 0)) {
      throw InvalidArgument("lower_bound",
                            "expected a negative value, got " + std::to_string(*args.lower_bound));
    }
    if (!args.lower_bound && !args.A_log.defined()) {
      throw InvalidArgument("A_log",
                            "expected a tensor of shape [HV] where there is no lower_bound, got none");
    }
  });
}

void validate_arguments(const SolveTrilArgs& args) {
  naming_op("solve_tril", [&] {
    const std::int64_t C = check_arguments(SolveTrilArgs::arguments(), &args)[Axis::C];
    if (C < 1 || C > common::kMaxTril)
      throw InvalidArgument("A", "expected C from 1 to 64, got " + std::to_string(C));
  });
}

StageResult make_result(const L2NormArgs& args) { return result_like(args.x, args.out); }
StageResult make_result(const GateArgs& args) { return result_like(args.g, args.out); }
StageResult make_result(const SolveTrilArgs& args) { return result_like(args.A, args.out); }

}  // namespace fla
