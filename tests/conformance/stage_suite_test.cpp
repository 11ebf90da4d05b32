#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "fla/dispatch/choice/function_backend.h"
#include "fla/ops/common/stages.h"
#include "tools/conformance/conformance.h"

/// The suite of op common, tested on backends that each have one thing wrong with them.
namespace {

using fla::L2NormArgs;
using fla::StageResult;
using fla::Tensor;
namespace conformance = fla::conformance;

/// The checks that a backend "subject" of op common does not pass.
std::vector<std::string> failed() {
  std::vector<std::string> names;
  for (const conformance::Report& report : conformance::run_conformance("common", "subject", {})) {
    if (!report.ok()) names.push_back(report.check);
  }
  return names;
}

TEST(StageSuite, PassesABackendOfOneStageThatIsRight) {
  const auto subject = fla::register_backend(
      "common.l2_norm", {.name = "subject"},
      [](const L2NormArgs& args) {
        return args.x.size(3) == 5 ? fla::refuse("requires K other than 5") : fla::accept();
      },
      [](const L2NormArgs& args) { return fla::common::original::l2_norm(args); });
  EXPECT_THAT(failed(), testing::IsEmpty());
}

TEST(StageSuite, CatchesAWrongElement) {
  const auto subject =
      fla::register_backend("common.l2_norm", {.name = "subject"}, [](const L2NormArgs& args) {
        StageResult result = fla::common::original::l2_norm(args);
        *result.out.as<float>() += 0.01f;
        return result;
      });
  EXPECT_THAT(failed(), testing::IsSupersetOf({"random", "poison_around"}));
}

TEST(StageSuite, CatchesAResultThatIsNotInOut) {
  const auto subject = fla::register_backend(
      "common.solve_tril", {.name = "subject"},
      [](const fla::SolveTrilArgs& args) { return fla::common::original::solve_tril({.A = args.A}); });
  EXPECT_THAT(failed(), testing::IsSupersetOf({"poison_around", "in_place"}));
}

TEST(StageSuite, CatchesBitsThatChange) {
  std::atomic<int> calls{0};
  const auto subject =
      fla::register_backend("common.gate", {.name = "subject"}, [&](const fla::GateArgs& args) {
        StageResult result = fla::common::original::gate(args);
        *result.out.as<float>() *= 1 + static_cast<float>(++calls % 2) * 1e-6f;
        return result;
      });
  EXPECT_THAT(failed(), testing::Contains("same_bits_twice"));
}

TEST(StageSuite, CatchesABackendThatTakesNothing) {
  const auto subject = fla::register_backend(
      "common.gate", {.name = "subject"}, [](const fla::GateArgs&) { return fla::refuse("not today"); },
      [](const fla::GateArgs& args) { return fla::common::original::gate(args); });
  EXPECT_THAT(failed(), testing::Contains("random"));
}

TEST(StageSuite, CatchesAVerifierThatChangesItsMind) {
  std::atomic<int> calls{0};
  const auto subject = fla::register_backend(
      "common.l2_norm", {.name = "subject"},
      [&](const L2NormArgs&) { return ++calls % 2 == 0 ? fla::accept() : fla::refuse("every other time"); },
      [](const L2NormArgs& args) { return fla::common::original::l2_norm(args); });
  EXPECT_THAT(failed(), testing::Contains("verifier"));
}

}  // namespace
