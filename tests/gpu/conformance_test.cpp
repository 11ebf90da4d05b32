#include "tools/conformance/conformance.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/kda/kda.h"
#include "tests/conformance/expect_holds.h"
#include "tests/gpu/gpu.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/allocations.h"
#include "tools/conformance/op_target.h"

/// What every backend must show, on the first GPU: backends that serve it, and the original kernels.
namespace {

namespace cases = fla::cases;
namespace conformance = fla::conformance;
using KdaTarget = conformance::OpTarget<fla::KdaArgs>;
using fla_test::kGpu;

struct Subject {
  std::string op, backend, check;
};

constexpr std::string_view kAll = "all";

/// kda has a test a check.
std::vector<Subject> subjects() {
  std::vector<Subject> found;
  for (const std::string_view name : conformance::ops_with_checks()) {
    const std::string op(name);
    if (op == "common") continue;
    for (const std::string& backend : conformance::backends_of(op)) {
      if (op != "kda") {
        found.push_back({op, backend, std::string(kAll)});
        continue;
      }
      for (const std::string_view check : conformance::checks(op))
        found.push_back({op, backend, std::string(check)});
    }
  }
  return found;
}

/// Does not touch CUDA itself: the check runs in a child process, which could not use it then.
class ConformanceOnGpu : public testing::TestWithParam<Subject> {};

TEST_P(ConformanceOnGpu, Holds) {
  const auto& [op, backend, check] = GetParam();
  const conformance::Options options{
      .golden_dir = FLA_GOLDEN_DIR, .device = kGpu, .allocations = fla_test::allocations_of_this_thread};
  const std::vector<conformance::Report> reports =
      check == kAll ? conformance::run_conformance(op, backend, options)
                    : std::vector{conformance::run_check(op, backend, check, options)};
  if (const std::string skipped = fla_test::expect_holds(reports); !skipped.empty()) GTEST_SKIP() << skipped;
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceOnGpu, testing::ValuesIn(subjects()), [](const auto& test) {
  return test.param.op + "_" + test.param.backend + "_" + test.param.check;
});

class ConformanceOfBoth : public fla_test::GpuTest {};

TEST_F(ConformanceOfBoth, ABackendThatServesTheOtherDeviceIsNotHeldToTakingCalls) {
  const conformance::Options here{}, there{.device = kGpu};
  EXPECT_EQ(conformance::run_check("kda", "cuda_decode", "random", here).skipped,
            "serves cuda:0: requires CUDA tensors, got cpu");
  for (const char* check : {"random", "gradients"}) {
    EXPECT_EQ(conformance::run_check("kda", "cpu_simd", check, there).skipped,
              "serves cpu: requires CPU tensors, got cuda:0");
  }
}

/// The original kernel's gradients, on GPUs alone.
class GradientsOnGpu final : public fla::KdaBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "gradients_on_gpu"}; }
  fla::Verdict chunk_kda_backward_verifier(const fla::KdaBackwardArgs& args) const override {
    return args.q.device().is_cpu() ? fla::refuse("requires CUDA tensors") : fla::accept();
  }
  fla::RecurrenceGradients chunk_kda_backward(const fla::KdaBackwardArgs& args) override {
    return fla::original::chunk_kda_backward(args);
  }
};

TEST_F(ConformanceOfBoth, ABackendWhoseGradientsAreForGpusIsNotHeldToThemOnTheCpu) {
  const auto backend = fla::register_backend("kda", std::make_unique<GradientsOnGpu>());
  EXPECT_EQ(conformance::run_check("kda", "gradients_on_gpu", "gradients", {}).skipped,
            "serves cuda:0: requires CUDA tensors");
}

struct Golden {
  std::string name, function;
};

std::vector<Golden> goldens() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(FLA_GOLDEN_DIR)) {
    if (const std::string name = entry.path().stem().string(); name.starts_with("kda")) names.push_back(name);
  }
  std::ranges::sort(names);
  std::vector<Golden> found;
  for (const std::string& name : names) {
    for (const std::string_view function : KdaTarget::kFunctions)
      found.push_back({name, std::string(function)});
  }
  return found;
}

class GoldenOnGpu : public fla_test::OnGpu<testing::TestWithParam<Golden>> {};

TEST_P(GoldenOnGpu, AgreesWithEveryKernelThatTakesIt) {
  const auto& [name, function] = GetParam();
  const cases::Case golden =
      cases::read_case(std::string(FLA_GOLDEN_DIR) + "/" + name + ".safetensors", "kda");
  const auto& args = golden.args_as<fla::KdaArgs>();
  const cases::Reference expected = conformance::expected_of(golden);
  ASSERT_FALSE(expected.o.empty());
  for (const std::string& backend : conformance::backends_of("kda")) {
    const KdaTarget target{function, backend, kGpu};
    if (!target.ask(args).takes()) continue;
    const fla::KdaResult result = target.run(args);
    EXPECT_EQ(result.final_state.defined(), !expected.final_state.empty()) << backend;
    EXPECT_EQ(conformance::disagreement(result, expected, args, target.precision()), "") << backend;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenOnGpu, testing::ValuesIn(goldens()),
                         [](const auto& test) { return test.param.name + "_" + test.param.function; });

}  // namespace
