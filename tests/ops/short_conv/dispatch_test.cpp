#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/choice/call_by_name.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/explain.h"
#include "tests/ops/short_conv/conv_call.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::ShortConvArgs;
using fla::conformance::bytes_of;
using fla_test::ConvCall;

/// Takes steps alone and writes sevens.
class SevenForSteps final : public fla::ShortConvBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "seven_steps"}; }
  fla::Verdict short_conv_verifier(const ShortConvArgs& args) const override {
    return args.x.size(1) == 1 ? fla::accept() : fla::refuse("expected T=1, got {}", args.x.size(1));
  }
  fla::ShortConvResult short_conv(const ShortConvArgs& args) override {
    fla::ShortConvResult result = make_result(args);
    for (std::int64_t i = 0; i < result.o.numel(); ++i) fla::cases::store(result.o, i, 7);
    return result;
  }
};

TEST(ShortConvDispatch, GivesCallsToTheBackendThatTakesThem) {
  const auto registered = fla::register_backend("short_conv", std::make_unique<SevenForSteps>());
  const ConvCall step({.B = 2, .T = 1, .D = 3}), prefill({.B = 2, .T = 4, .D = 3});
  EXPECT_EQ(fla::cases::element(fla::short_conv(step.args).o, 5), 7);
  EXPECT_NE(fla::cases::element(fla::original::short_conv(step.args).o, 5), 7);
  EXPECT_NE(fla::cases::element(fla::short_conv(prefill.args).o, 5), 7);

  const fla::Explanation refused = fla::explain("short_conv", "short_conv", prefill.args);
  EXPECT_EQ(refused.selected, "original");
  ASSERT_EQ(refused.rows.size(), 1u);
  EXPECT_EQ(refused.rows[0].reason, "expected T=1, got 4");
  EXPECT_EQ(fla::explain("short_conv", "short_conv", step.args).selected, "seven_steps");
}

TEST(ShortConvDispatch, IsPlannedAndCalledByName) {
  const ConvCall call({.B = 2, .T = 4, .D = 3});
  const std::vector<std::byte> expected = bytes_of(fla::short_conv(call.args).o);
  const auto planned = fla::plan("short_conv", "short_conv", call.args);
  EXPECT_EQ(planned.backend(), "original");
  EXPECT_EQ(bytes_of(planned(call.args).o), expected);
  EXPECT_EQ(bytes_of(fla::call("short_conv", call.args).o), expected);
}

}  // namespace
