#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/ops.h"
#include "tests/backends/cpu_simd/targets_of_the_machine.h"
#include "tests/core/scoped_environment.h"
#include "tests/ops/kda/causality.h"
#include "tests/ops/kda/pool_run.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla_test::complaint;
using fla_test::ReloadedEnvironment;
using fla_test::targets;

TEST(CpuSimdTargets, AnUnknownOneIsAnErrorThatNamesThoseOfTheMachine) {
  const std::string text = complaint();
  EXPECT_TRUE(text.starts_with("FLA_CPU_SIMD_TARGET: expected a SIMD target that this machine has ("))
      << text;
  EXPECT_TRUE(text.ends_with("), got 'none'")) << text;
}

template <class Args>
using Function = fla::RecurrenceResult (*)(const Args&);

/// An op's functions.
template <class Args>
inline constexpr std::array<Function<Args>, 2> kFunctions{};
template <>
inline constexpr std::array kFunctions<fla::KdaArgs>{fla::chunk_kda, fla::fused_recurrent_kda};
template <>
inline constexpr std::array kFunctions<fla::DplrDeltaRuleArgs>{fla::chunk_dplr_delta_rule,
                                                               fla::fused_recurrent_dplr_delta_rule};
template <>
inline constexpr std::array kFunctions<fla::LinearAttnArgs>{fla::chunk_linear_attn,
                                                            fla::fused_recurrent_linear_attn};

class CpuSimdTarget : public testing::TestWithParam<std::string> {
 protected:
  /// Both functions, on cpu_simd, against the reference.
  template <class Args>
  static void expect_agreement(const Args& args) {
    const fla::ScopedPolicy required({.require = {{std::string(Args::kOp.name), "cpu_simd"}}});
    const fla::cases::Reference reference = fla::cases::reference_of(args);
    for (const Function<Args> run : kFunctions<Args>) {
      EXPECT_EQ(fla::conformance::disagreement(run(args), reference, args), "")
          << Args::kOp.name << ": " << fla::conformance::describe(args);
    }
  }

  /// The same bits whatever the number of threads.
  template <class Args>
  static void expect_bits_on_any_threads(const Args& args) {
    for (const Function<Args> run : kFunctions<Args>) {
      fla::set_num_threads(1);
      const fla::RecurrenceResult alone = run(args);
      for (const int threads : {2, 3, 7}) {  // more than there are heads: V is split
        fla::set_num_threads(threads);
        EXPECT_TRUE(fla::conformance::same_bits(run(args), alone)) << Args::kOp.name << " on " << threads;
      }
      fla::set_num_threads(0);
    }
  }

  ReloadedEnvironment forced_{{"FLA_CPU_SIMD_TARGET", GetParam()}};
};

TEST_P(CpuSimdTarget, AgreesOnEveryKindOfData) {
  for (const fla::cases::DataKind data : fla::cases::kAllDataKinds) {
    for (const fla::DType dtype : {fla::DType::f32, fla::DType::bf16, fla::DType::f16}) {
      expect_agreement(
          fla::cases::make_kda_case({.T = 83, .H = 2, .K = 128, .V = 128, .dtype = dtype, .data = data})
              .args);
    }
  }
}

TEST_P(CpuSimdTarget, AgreesOnEverySizeOfHead) {
  for (const std::int64_t K : {1, 2, 7, 16, 33, 64, 100, 128, 200, 255, 256}) {
    for (const std::int64_t V : {1, 3, 8, 24, 31, 64, 96, 128, 250, 256}) {
      expect_agreement(fla::cases::make_kda_case({.T = 21, .H = 1, .K = K, .V = V}).args);
    }
  }
}

TEST_P(CpuSimdTarget, AgreesOnEveryLengthAroundAChunk) {
  for (std::int64_t T = 0; T <= 50; ++T) {
    expect_agreement(fla::cases::make_kda_case({.T = T, .H = 1, .K = 32, .V = 48}).args);
  }
}

TEST_P(CpuSimdTarget, AgreesWithStatesOfValuesFirst) {
  for (const std::int64_t T : {1, 40}) {
    expect_agreement(
        fla::cases::make_kda_case({.B = 2,
                                   .T = T,
                                   .H = 2,
                                   .K = 36,
                                   .V = 20,
                                   .options = {.output_final_state = true, .state_v_first = true}})
            .args);
  }
}

TEST_P(CpuSimdTarget, LetsNoTokenChangeWhatIsBeforeItOrBesideIt) {
  const fla::ScopedPolicy required({.require = {{"kda", "cpu_simd"}}});
  fla_test::expect_outputs_before("chunk_kda", fla::chunk_kda);
  fla_test::expect_outputs_before("fused_recurrent_kda", fla::fused_recurrent_kda);
}

TEST_P(CpuSimdTarget, AgreesOnEveryMagnitude) {
  fla_test::for_each_magnitude(expect_agreement<fla::KdaArgs>);
}

TEST_P(CpuSimdTarget, AgreesOnTheLowRankRule) {
  using Args = fla::DplrDeltaRuleArgs;
  for (const fla::cases::DataKind data : fla::cases::kAllDataKinds) {
    for (const fla::DType dtype : {fla::DType::f32, fla::DType::bf16, fla::DType::f16}) {
      expect_agreement(fla::cases::make_case<Args>({.T = 19,
                                                    .H = 1,
                                                    .HV = 2,
                                                    .K = 128,
                                                    .V = 128,
                                                    .dtype = dtype,
                                                    .gate_dtype = dtype,
                                                    .data = data})
                           .args);
    }
  }
  for (const bool v_first : {false, true}) {
    const Args options{.output_final_state = true, .state_v_first = v_first};
    for (const std::int64_t K : {1, 2, 7, 16, 33, 100, 256}) {
      for (const std::int64_t V : {1, 3, 8, 31, 64, 100, 256})
        expect_agreement(
            fla::cases::make_case<Args>({.T = 11, .H = 1, .K = K, .V = V, .options = options}).args);
    }
    for (const bool final_state : {false, true}) {
      for (const std::int64_t T : {0, 1, 2, 8, 9, 40}) {
        expect_agreement(fla::cases::make_case<Args>(
                             {.B = 3,
                              .T = T,
                              .H = 2,
                              .K = 36,
                              .V = 20,
                              .initial_state = T != 9,
                              .options = {.output_final_state = final_state, .state_v_first = v_first}})
                             .args);
      }
    }
  }
}

TEST_P(CpuSimdTarget, AgreesOnNormalizedOutputs) {
  using Args = fla::LinearAttnArgs;
  const Args options{.output_final_state = true, .normalize = true};
  for (const fla::DType dtype : {fla::DType::f32, fla::DType::bf16, fla::DType::f16}) {
    for (const std::int64_t K : {1, 7, 33, 128}) {
      for (const std::int64_t V : {1, 31, 64, 250}) {
        for (const std::int64_t T : {1, 21}) {
          expect_agreement(
              fla::cases::make_case<Args>(
                  {.B = 2, .T = T, .H = 1, .HV = 2, .K = K, .V = V, .dtype = dtype, .options = options})
                  .args);
        }
      }
    }
  }
  expect_agreement(
      fla::cases::make_case<Args>({.K = 32, .V = 48, .lengths = {9, 0, 30, 1}, .options = options}).args);
}

TEST_P(CpuSimdTarget, HasTheSameBitsForAnyNumberOfThreads) {
  expect_bits_on_any_threads(fla::cases::make_kda_case({.T = 70, .H = 1, .K = 64, .V = 128}).args);
  for (const std::int64_t V : {37, 128}) {
    for (const bool v_first : {false, true}) {
      expect_bits_on_any_threads(fla::cases::make_case<fla::DplrDeltaRuleArgs>(
                                     {.T = 70,
                                      .H = 1,
                                      .K = 64,
                                      .V = V,
                                      .options = {.output_final_state = true, .state_v_first = v_first}})
                                     .args);
    }
    expect_bits_on_any_threads(
        fla::cases::make_case<fla::LinearAttnArgs>(
            {.T = 70, .H = 1, .K = 64, .V = V, .options = {.output_final_state = true, .normalize = true}})
            .args);
  }
}

TEST_P(CpuSimdTarget, HasTheSameBitsWithStatesInAPool) {
  const fla::ScopedPolicy required({.require = {{"kda", "cpu_simd"}}});
  std::uint64_t seed = 1;
  for (const bool v_first : {false, true}) {
    for (const bool write_indices : {false, true}) {
      for (fla::cases::KdaSpec spec :
           {fla::cases::KdaSpec{.B = 9, .T = 1, .H = 1, .HV = 2, .K = 36, .V = 20, .pool = 20},
            fla::cases::KdaSpec{.H = 1, .K = 32, .V = 70, .lengths = {3, 0, 17, 1, 33, 0, 8}, .pool = 15},
            fla::cases::KdaSpec{
                .B = 4, .T = 20, .H = 1, .K = 64, .V = 64, .dtype = fla::DType::bf16, .pool = 9}}) {
        spec.write_indices = write_indices;
        spec.options.state_v_first = v_first;
        spec.seed = seed++;
        const fla::cases::KdaCase call = fla::cases::make_kda_case(spec);
        expect_agreement(call.args);
        for (const int threads : {1, 16}) {  // with more than there are heads, V is split
          fla::set_num_threads(threads);
          for (const auto run : {fla::chunk_kda, fla::fused_recurrent_kda}) {
            fla_test::expect_bits_of_sequences_alone(run, call.args, false);
            fla_test::expect_bits_of_sequences_alone(run, call.args, true);
          }
        }
        fla::set_num_threads(0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfThisMachine, CpuSimdTarget, testing::ValuesIn(targets()),
                         [](const testing::TestParamInfo<std::string>& target) { return target.param; });

}  // namespace
