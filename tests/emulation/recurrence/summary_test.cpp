#include "fla/ops/recurrence/cuda/summary.h"

#include <gtest/gtest.h>

#include "fla/ops/merge/call_of.h"
#include "fla/ops/merge/cuda_kernel.h"
#include "fla/ops/ops.h"
#include "tests/emulation/recurrence/poisoned.h"
#include "tests/ops/merge/merge_call.h"
#include "tests/ops/recurrence/summary_checks.h"

/// Summaries and merge by the original kernels for GPUs, compiled by the C++ compiler and run on the CPU.
namespace {

using fla_test::MergeCall;
using fla_test::poison;
using fla_test::workspace_of;

#define FLA_OP(NAME, ARGS)                                                                               \
  TEST(EmulatedSummary, NAME##_agrees_with_the_reference) {                                              \
    fla_test::expect_summaries<fla::ARGS>([](const fla::ARGS::Summary& args) {                           \
      fla::validate_arguments(args);                                                                     \
      fla::RecurrenceSummary result = fla::make_result(args);                                            \
      poison(result.R), poison(result.P);                                                                \
      const auto call = fla::cuda::summary_call_of(fla::recurrence::summary_arguments_of(args), result); \
      const auto workspace = workspace_of(fla::cuda::summary_workspace(call));                           \
      EXPECT_EQ(fla::cuda::launch_summary(call, workspace.get(), nullptr), cudaSuccess);                 \
      return result;                                                                                     \
    });                                                                                                  \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

fla::Tensor run(const fla::MergeArgs& args) {
  fla::validate_arguments(args);
  const fla::MergeResult result = fla::make_result(args);
  if (!args.final_state.defined()) poison(result.final_state);
  EXPECT_EQ(fla::cuda::launch_merge(fla::call_of(args, result), nullptr), cudaSuccess);
  return result.final_state;
}

TEST(EmulatedMerge, AgreesWithFloat64) {
  for (const bool diagonal : {false, true}) {
    for (const std::int64_t C : {0, 1, 3}) {
      const MergeCall call({.C = C, .diagonal = diagonal, .state = C != 1});
      EXPECT_LE(fla::cases::relative_error(run(call.args), call.reference()), 2e-6);
    }
  }
  for (const std::int64_t K : {1, 100, 256}) {
    const MergeCall call({.C = 2, .N = 1, .HV = 1, .K = K, .V = 257 - K});
    EXPECT_LE(fla::cases::relative_error(run(call.args), call.reference()), 2e-6);
  }
}

TEST(EmulatedMerge, UpdatesAStateInItsPlace) {
  MergeCall call({});
  const fla::Tensor whole = run(call.args);
  call.args.final_state = call.args.initial_state;
  EXPECT_EQ(fla::cases::relative_error(run(call.args), whole), 0);
}

}  // namespace
