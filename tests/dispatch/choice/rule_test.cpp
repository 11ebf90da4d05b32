#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/dispatch/breaker_clock.h"
#include "tests/dispatch/explained.h"
#include "tests/dispatch/mix.h"

/// Calls, plans and explain share one rule of who takes a call.
namespace {

using fla_test::add;
using fla_test::BreakerClock;
using fla_test::MixArgs;
using fla_test::MixResult;
using fla_test::selected_backend;

std::string chosen_by_plan(const MixArgs& args = {}) {
  return std::string(fla::plan("mix", "mix_chunk", args).backend());
}
std::string chosen_by_explain(const MixArgs& args = {}) {
  return fla::explain("mix", "mix_chunk", args).selected;
}

/// Explain and the plan first: a call may change where a breaker stands.
void expect_all_choose(const std::string& backend) {
  EXPECT_EQ(chosen_by_explain(), backend);
  EXPECT_EQ(chosen_by_plan(), backend);
  EXPECT_EQ(selected_backend(), backend);
}

TEST(Rule, IsTheSameForRefusals) {
  const auto refusing = add(
      {.name = "rule_refusing", .priority = 1, .verify = [](const MixArgs&) { return fla::refuse("no"); }});
  const auto next = add({.name = "rule_next", .priority = 2});
  expect_all_choose("rule_next");
}

TEST(Rule, IsTheSameForAVerifierThatFails) {
  const auto failing =
      add({.name = "rule_failing", .priority = 1, .verify = [](const MixArgs&) -> fla::Verdict {
             throw std::runtime_error("no metadata");
           }});
  const auto next = add({.name = "rule_next", .priority = 2});
  expect_all_choose("rule_next");
}

TEST(Rule, IsTheSameForAVerifierThatIsNotPure) {
  int asked = 0;
  const auto fickle = add({.name = "rule_fickle", .priority = 1, .verify = [&asked](const MixArgs&) {
                             return ++asked % 2 == 1 ? fla::accept() : fla::refuse("not now");
                           }});
  const auto next = add({.name = "rule_next", .priority = 2});
  const fla::ScopedPolicy checked({.check_verifiers = true});
  expect_all_choose("rule_next");
  const auto row = fla_test::row_of("rule_fickle", fla::explain("mix", "mix_chunk", MixArgs{}));
  EXPECT_EQ(row.state, "failed");
  EXPECT_EQ(row.reason, "verifier failed: it is not pure: asked twice, it gave two answers");
}

TEST(Rule, IsTheSameForABreaker) {
  const BreakerClock clock;
  bool fails = true;
  const auto shaky = add({.name = "rule_shaky", .priority = 1, .run = [&fails](const MixArgs&) -> MixResult {
                            if (fails)
                              throw fla::BackendError("out of workspace", fla::BackendError::Wrote::nothing);
                            return {"rule_shaky"};
                          }});
  const auto next = add({.name = "rule_next", .priority = 2});
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback,
                                  .breaker_threshold = 1,
                                  .breaker_window_ms = 1'000,
                                  .breaker_cool_down_ms = 4'000});
  EXPECT_EQ(selected_backend(), "rule_next");
  fails = false;
  expect_all_choose("rule_next");  // open
  BreakerClock::advance_ms(4'000);
  expect_all_choose("rule_shaky");  // due for a trial, which the call is
  expect_all_choose("rule_shaky");  // closed
}

/// What its verifier works out: half of K.
struct Half {
  std::int64_t K = 0;
};

class CarryingBackend final : public fla_test::MixBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "rule_carrying", .priority = 1}; }
  fla::Verdict mix_chunk_verifier(const MixArgs& args) const override {
    ++verified;
    return fla::accept(Half{args.K / 2});
  }
  MixResult mix_chunk(const MixArgs& args) override { return mix_chunk_accepted(args, fla::accept()); }
  MixResult mix_chunk_accepted(const MixArgs&, const fla::Verdict& accepted) {
    carried = accepted.carried<Half>();
    return {"rule_carrying"};
  }

  static inline int verified = 0;
  static inline std::optional<Half> carried;
};

TEST(Rule, CarriesWhatTheVerifierWorkedOutToTheRun) {
  const auto backend = fla::register_backend("mix", std::make_unique<CarryingBackend>());
  EXPECT_EQ(selected_backend({.K = 64}), "rule_carrying");
  ASSERT_TRUE(CarryingBackend::carried);
  EXPECT_EQ(CarryingBackend::carried->K, 32);
}

TEST(Rule, CarriesItIntoAPlan) {
  const auto backend = fla::register_backend("mix", std::make_unique<CarryingBackend>());
  const fla::Plan<MixArgs> plan = fla::plan("mix", "mix_chunk", MixArgs{.K = 256});
  const int verified = CarryingBackend::verified;
  for (int i = 0; i < 3; ++i) {
    CarryingBackend::carried.reset();
    EXPECT_EQ(plan({.K = 256}).by, "rule_carrying");
    ASSERT_TRUE(CarryingBackend::carried);
    EXPECT_EQ(CarryingBackend::carried->K, 128);
  }
  EXPECT_EQ(CarryingBackend::verified, verified);
}

TEST(Rule, AVerifierIsNotPureWhenItCarriesOtherValues) {
  std::int64_t count = 0;
  const auto fickle =
      add({.name = "rule_fickle", .verify = [&count](const MixArgs&) { return fla::accept(Half{++count}); }});
  const fla::ScopedPolicy checked({.check_verifiers = true});
  expect_all_choose("original");
}

TEST(Verdict, CarriesAValueOfItsSizeAlone) {
  const fla::Verdict verdict = fla::accept(Half{7});
  EXPECT_TRUE(verdict.ok());
  EXPECT_EQ(verdict.reason(), "");
  EXPECT_TRUE(verdict.values().empty());
  ASSERT_TRUE(verdict.carried<Half>());
  EXPECT_EQ(verdict.carried<Half>()->K, 7);
  EXPECT_FALSE(verdict.carried<std::int32_t>());
  EXPECT_FALSE(fla::accept().carried<Half>());
  EXPECT_FALSE(fla::refuse("no").carried<Half>());
  EXPECT_TRUE(verdict == fla::accept(Half{7}));
  EXPECT_FALSE(verdict == fla::accept(Half{8}));
  EXPECT_FALSE(verdict == fla::accept());
}

}  // namespace
