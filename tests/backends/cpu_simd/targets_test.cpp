#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/scoped_environment.h"
#include "tests/ops/kda/causality.h"
#include "tests/ops/kda/pool_run.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla_test::ReloadedEnvironment;
using fla_test::ScopedEnvironment;

/// What the library says about a target that does not exist: "FLA_CPU_SIMD_TARGET: expected … (NEON), got
/// 'none'".
std::string complaint() {
  const fla::cases::KdaCase call = fla::cases::make_kda_case({.T = 1, .H = 1, .K = 4, .V = 4});
  fla::chunk_kda(call.args);  // the backends have to be loaded for their settings to be read
  const ScopedEnvironment wrong({{"FLA_CPU_SIMD_TARGET", "none"}});
  try {
    fla::reload_environment();
  } catch (const fla::ConfigError& error) {
    return error.what();
  }
  return "";
}

/// The targets that this machine has, out of that sentence.
std::vector<std::string> targets() {
  const std::string text = complaint();
  const auto begin = text.find('(') + 1, end = text.find(')');
  std::vector<std::string> names;
  std::string name;
  for (const char letter : text.substr(begin, end - begin) + ",") {
    if (letter == ',') names.push_back(std::exchange(name, ""));
    if (letter != ',' && letter != ' ') name += letter;
  }
  return names;
}

TEST(CpuSimdTargets, AnUnknownOneIsAnErrorThatNamesThoseOfTheMachine) {
  const std::string text = complaint();
  EXPECT_TRUE(text.starts_with("FLA_CPU_SIMD_TARGET: expected a SIMD target that this machine has ("))
      << text;
  EXPECT_TRUE(text.ends_with("), got 'none'")) << text;
}

class CpuSimdTarget : public testing::TestWithParam<std::string> {
 protected:
  /// Both functions, on cpu_simd, against the reference.
  static void expect_agreement(const fla::KdaArgs& args) {
    const fla::ScopedPolicy required({.require = {{"kda", "cpu_simd"}}});
    const fla::cases::Reference reference = fla::cases::reference_of(args);
    for (const auto run : {fla::chunk_kda, fla::fused_recurrent_kda}) {
      EXPECT_EQ(fla::conformance::disagreement(run(args), reference, args), "")
          << fla::conformance::describe(args);
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

TEST_P(CpuSimdTarget, AgreesOnEveryMagnitude) { fla_test::for_each_magnitude(expect_agreement); }

TEST_P(CpuSimdTarget, HasTheSameBitsForAnyNumberOfThreads) {
  const fla::cases::KdaCase call = fla::cases::make_kda_case({.T = 70, .H = 1, .K = 64, .V = 128});
  for (const auto run : {fla::chunk_kda, fla::fused_recurrent_kda}) {
    fla::set_num_threads(1);
    const fla::KdaResult alone = run(call.args);
    for (const int threads : {2, 3, 7}) {  // more than there are heads: V is split
      fla::set_num_threads(threads);
      const fla::KdaResult split = run(call.args);
      EXPECT_EQ(fla::conformance::bytes_of(split.o), fla::conformance::bytes_of(alone.o)) << threads;
      EXPECT_EQ(fla::conformance::bytes_of(split.final_state), fla::conformance::bytes_of(alone.final_state))
          << threads;
    }
    fla::set_num_threads(0);
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
