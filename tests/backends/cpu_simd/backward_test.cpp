#include <gtest/gtest.h>

#include <string>

#include "fla/core/threads.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/backends/cpu_simd/targets_of_the_machine.h"
#include "tests/core/scoped_environment.h"
#include "tests/ops/recurrence/gradient_checks.h"

/// Gradients of cpu_simd, on every SIMD target of the machine. What it refuses (normalize, Rule::low_rank)
/// goes to the original kernel.
namespace {

using fla::cases::BackwardCase;

/// Whoever takes the call.
template <class Args>
constexpr auto kBackward = fla::cases::Functions<Args>::backward;

class CpuSimdBackward : public testing::TestWithParam<std::string> {
  fla_test::ReloadedEnvironment forced_{{"FLA_CPU_SIMD_TARGET", GetParam()}};
};

#define FLA_OP(NAME, ARGS)                                      \
  TEST_P(CpuSimdBackward, NAME##_agrees_with_the_reference) {   \
    fla_test::expect_all<fla::ARGS>(kBackward<fla::ARGS>);      \
  }                                                             \
  TEST_P(CpuSimdBackward, NAME##_takes_any_gate) {              \
    fla_test::expect_any_gate<fla::ARGS>(kBackward<fla::ARGS>); \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

template <class Args>
void expect_to_be_taken() {
  const BackwardCase<Args> made({.T = 3, .H = 1, .K = 4, .V = 4});
  EXPECT_EQ(fla::explain(Args::kOp.name, Args::kOp.backward, made.args).selected,
            Args::kOp.rule == fla::Rule::low_rank ? "original" : "cpu_simd");
}
TEST_P(CpuSimdBackward, TakesEveryOpButThatOfTheLowRankRule) {
#define FLA_OP(NAME, ARGS) expect_to_be_taken<fla::ARGS>();
  FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP
}

TEST_P(CpuSimdBackward, AgreesOnEverySizeOfHead) {
  const fla::ScopedPolicy required({.require = {{"kda", "cpu_simd"}}});
  for (const std::int64_t K : {1, 7, 33, 128, 255, 256}) {
    for (const std::int64_t V : {1, 3, 24, 31, 128, 250, 256}) {
      fla_test::expect_reference<fla::KdaArgs>(fla::chunk_kda_backward, {.T = 21, .H = 1, .K = K, .V = V},
                                               "K=" + std::to_string(K) + ", V=" + std::to_string(V));
    }
  }
}

TEST_P(CpuSimdBackward, AgreesOnEveryLengthAroundAChunkAndAStretch) {
  const auto agree = [](std::int64_t T) {
    fla_test::expect_reference<fla::KdaArgs>(fla::chunk_kda_backward, {.T = T, .H = 1, .K = 16, .V = 20},
                                             "T=" + std::to_string(T));
    fla_test::expect_reference<fla::GlaArgs>(fla::chunk_gla_backward, {.T = T, .H = 1, .K = 16, .V = 20},
                                             "T=" + std::to_string(T));
  };
  for (std::int64_t T = 0; T <= 34; ++T) agree(T);
  for (const std::int64_t T : {511, 512, 513, 1100}) agree(T);
}

TEST_P(CpuSimdBackward, AgreesOnGroupsOfValueHeads) {
  for (const fla::DType dtype : {fla::DType::f32, fla::DType::bf16}) {
    fla::cases::CaseSpec<fla::GatedDeltaRuleArgs> spec{
        .B = 2, .T = 40, .H = 2, .HV = 6, .K = 20, .V = 12, .dtype = dtype};
    spec.options.use_qk_l2norm_in_kernel = true;
    fla_test::expect_reference<fla::GatedDeltaRuleArgs>(fla::chunk_gated_delta_rule_backward, spec, "groups");
  }
}

TEST_P(CpuSimdBackward, HasTheSameBitsForAnyNumberOfThreads) {
  const BackwardCase<fla::KdaArgs> made({.H = 2, .HV = 4, .K = 64, .V = 48, .lengths = {200, 0, 31, 170}});
  fla::set_num_threads(1);
  const auto alone = fla::cases::named_gradients(fla::chunk_kda_backward(made.args));
  for (const int threads : {2, 3, 7}) {
    fla::set_num_threads(threads);
    const auto together = fla::cases::named_gradients(fla::chunk_kda_backward(made.args));
    for (std::size_t i = 0; i < alone.size(); ++i) {
      if (!alone[i].second.defined()) continue;
      EXPECT_TRUE(fla_test::same_bits(alone[i].second, together[i].second))
          << alone[i].first << " on " << threads;
    }
  }
  fla::set_num_threads(0);
}

INSTANTIATE_TEST_SUITE_P(OfThisMachine, CpuSimdBackward, testing::ValuesIn(fla_test::targets()),
                         [](const testing::TestParamInfo<std::string>& target) { return target.param; });

}  // namespace
