#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fla/core/errors.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/choice/call_by_name.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/common/stages.h"
#include "tests/core/error_text.h"
#include "tests/ops/common/random_tensor.h"

namespace {

using fla::DType;
using fla::L2NormArgs;
using fla::StageResult;
using fla::Tensor;
namespace common = fla::common;

/// Serves two stages of three, with a number that shows who it was.
class SevenEverywhere final : public fla::CommonBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "seven", .priority = 1}; }
  fla::Verdict l2_norm_verifier(const L2NormArgs& args) const override {
    if (args.x.size(3) != 4) return fla::refuse("requires K=4, got {}", args.x.size(3));
    return fla::accept();
  }
  StageResult l2_norm(const L2NormArgs& args) override { return sevens(make_result(args)); }
  StageResult gate(const fla::GateArgs& args) override { return sevens(make_result(args)); }

 private:
  static StageResult sevens(StageResult result) {
    for (std::int64_t i = 0; i < result.out.numel(); ++i) result.out.as<float>()[i] = 7;
    return result;
  }
};

const Tensor four = fla_test::random_tensor({1, 2, 1, 4}, DType::f32, 1);
const Tensor five = fla_test::random_tensor({1, 2, 1, 5}, DType::f32, 1);

TEST(CommonOp, IsAnOpLikeAnyOther) {
  const auto seven = fla::register_backend("common", std::make_unique<SevenEverywhere>());
  EXPECT_EQ(common::l2_norm({.x = four}).out.as<float>()[0], 7);
  EXPECT_NE(common::original::l2_norm({.x = four}).out.as<float>()[0], 7);
  EXPECT_NE(common::l2_norm({.x = five}).out.as<float>()[0], 7);
  EXPECT_EQ(common::gate({.g = five, .lower_bound = -1.0f}).out.as<float>()[0], 7);
  EXPECT_EQ(common::solve_tril({.A = four}).out.as<float>()[0], 1);
  const fla::ScopedPolicy policy({.deny = {{"common.seven"}}});
  EXPECT_NE(common::l2_norm({.x = four}).out.as<float>()[0], 7);
}

TEST(CommonOp, IsExplained) {
  const auto seven = fla::register_backend("common", std::make_unique<SevenEverywhere>());
  const fla::Explanation norm = fla::explain("common", "l2_norm", L2NormArgs{.x = five});
  EXPECT_EQ(norm.selected, "original");
  ASSERT_EQ(norm.rows.size(), 1u);
  EXPECT_EQ(norm.rows[0].state, "refused");
  EXPECT_EQ(norm.rows[0].reason, "requires K=4, got 5");
  const fla::Explanation solve = fla::explain("common", "solve_tril", fla::SolveTrilArgs{.A = four});
  EXPECT_EQ(solve.rows.at(0).state, "not_implemented");
  EXPECT_EQ(solve.rows.at(0).reason, "has no solve_tril");
}

TEST(CommonOp, IsCalledByName) {
  EXPECT_EQ(fla::call("common.solve_tril", fla::SolveTrilArgs{.A = four}).out.as<float>()[0], 1);
  EXPECT_EQ(fla::resolve("common.l2_norm", L2NormArgs{.x = four}).backend(), "original");
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>(
                [] { (void)fla::call("common.gate", L2NormArgs{.x = four}); }),
            "args: expected fla::GateArgs, the arguments of common.gate, got fla::L2NormArgs");
  EXPECT_EQ(
      fla_test::error_text<fla::InvalidArgument>([] { (void)fla::call("common", L2NormArgs{.x = four}); }),
      "function: expected one of l2_norm, gate, solve_tril, got 'common'");
}

TEST(CommonOp, CanBeRequired) {
  const auto seven = fla::register_backend("common", std::make_unique<SevenEverywhere>());
  const fla::ScopedPolicy policy({.require = {{"common", "seven"}}});
  EXPECT_EQ(common::l2_norm({.x = four}).out.as<float>()[0], 7);
  EXPECT_EQ(fla_test::error_text<fla::BackendError>([] { (void)common::l2_norm({.x = five}); }),
            "common.l2_norm: backend seven is required and refused: requires K=4, got 5");
}

}  // namespace
