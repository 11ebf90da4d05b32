#include <gtest/gtest.h>

#include <memory>

#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/choice/call_by_name.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/explain.h"
#include "tests/ops/step/step_call.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::conformance::bytes_of;
using fla_test::StepCall;

/// Takes states of 16 values alone and writes sevens.
class SevenForSixteen final : public fla::KdaStepBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "seven_values"}; }
  fla::Verdict kda_step_verifier(const fla::KdaStepArgs& args) const override {
    return args.z.size(3) == 16 ? fla::accept() : fla::refuse("expected V=16, got {}", args.z.size(3));
  }
  fla::StepResult kda_step(const fla::KdaStepArgs& args) override {
    fla::StepResult result = make_result(args);
    for (std::int64_t i = 0; i < result.o.numel(); ++i) fla::cases::store(result.o, i, 7);
    return result;
  }
};

TEST(StepDispatch, GivesCallsToTheBackendThatTakesThem) {
  const auto registered = fla::register_backend("kda_step", std::make_unique<SevenForSixteen>());
  const StepCall<fla::KdaStepArgs> taken({.K = 8, .V = 16}), other({.K = 8, .V = 8});
  EXPECT_EQ(fla::cases::element(fla::kda_step(taken.args).o, 5), 7);
  EXPECT_NE(fla::cases::element(fla::original::kda_step(taken.args).o, 5), 7);
  EXPECT_NE(fla::cases::element(fla::kda_step(other.args).o, 5), 7);
  const fla::Explanation refused = fla::explain("kda_step", "kda_step", other.args);
  EXPECT_EQ(refused.selected, "original");
  for (const auto& row : refused.rows) {
    if (row.name == "seven_values") {
      EXPECT_EQ(row.reason, "expected V=16, got 8");
    }
  }
  EXPECT_EQ(fla::explain("kda_step", "kda_step", taken.args).selected, "seven_values");
}

TEST(StepDispatch, IsPlannedAndCalledByName) {
  const StepCall<fla::GatedDeltaRuleStepArgs> call({.K = 8, .V = 8}), planned({.K = 8, .V = 8}),
      named({.K = 8, .V = 8});
  (void)fla::gated_delta_rule_step(call.args);
  const auto plan = fla::plan("gated_delta_rule_step", "gated_delta_rule_step", planned.args);
  EXPECT_EQ(plan.backend(), "original");
  EXPECT_EQ(bytes_of(plan(planned.args).o), bytes_of(call.out));
  EXPECT_EQ(bytes_of(fla::call("gated_delta_rule_step", named.args).o), bytes_of(call.out));
}

}  // namespace
