#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "fla/core/errors.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/mix.h"

namespace {

using fla::Policy;
using fla::ScopedPolicy;
using fla_test::add;
using fla_test::ReloadedEnvironment;
using fla_test::selected_backend;

/// Alpha, beta and gamma take everything, in that order.
class Layers : public testing::Test {
 protected:
  void TearDown() override { fla::set_policy({}); }

  fla::RegisteredBackend alpha_ = add({.name = "alpha", .priority = 1, .env_var = "FLA_TEST_ALPHA"});
  fla::RegisteredBackend beta_ = add({.name = "beta", .priority = 2, .env_var = "FLA_TEST_BETA"});
  fla::RegisteredBackend gamma_ = add({.name = "gamma", .priority = 3, .env_var = "FLA_TEST_GAMMA"});
};

TEST_F(Layers, SetPolicyStandsOnTheEnvironment) {
  const ReloadedEnvironment environment{{"FLA_TEST_ALPHA", "0"}, {"FLA_BACKEND_DENY", "beta"}};
  EXPECT_EQ(selected_backend(), "gamma");
  fla::set_policy({.enable = {{"alpha", true}}});
  EXPECT_EQ(selected_backend(), "alpha");
  fla::set_policy({.deny = {{"gamma"}}});
  EXPECT_EQ(selected_backend(), "beta") << "a list replaces the earlier list as a whole";
  fla::set_policy({});
  EXPECT_EQ(selected_backend(), "gamma");
}

TEST_F(Layers, ScopedPolicyStandsOnEverything) {
  const ReloadedEnvironment environment{{"FLA_TEST_ALPHA", "0"}};
  fla::set_policy({.enable = {{"beta", false}}});
  EXPECT_EQ(selected_backend(), "gamma");
  {
    const ScopedPolicy scoped({.enable = {{"alpha", true}}});
    EXPECT_EQ(selected_backend(), "alpha");
  }
  EXPECT_EQ(selected_backend(), "gamma");
}

TEST_F(Layers, ScopesNest) {
  const ScopedPolicy outer({.enable = {{"alpha", false}}});
  EXPECT_EQ(selected_backend(), "beta");
  {
    const ScopedPolicy inner({.enable = {{"beta", false}}});
    EXPECT_EQ(selected_backend(), "gamma") << "what the outer one said still holds";
    {
      const ScopedPolicy innermost({.enable = {{"alpha", true}}});
      EXPECT_EQ(selected_backend(), "alpha") << "the innermost one wins";
    }
    EXPECT_EQ(selected_backend(), "gamma");
  }
  EXPECT_EQ(selected_backend(), "beta");
}

TEST_F(Layers, ScopedPolicyHoldsForItsThreadAlone) {
  const ScopedPolicy scoped({.enable = {{"alpha", false}}});
  std::string_view elsewhere;
  std::thread([&elsewhere] { elsewhere = selected_backend(); }).join();
  EXPECT_EQ(elsewhere, "alpha");
  EXPECT_EQ(selected_backend(), "beta");
}

TEST_F(Layers, ScopesOfTwoThreadsAreIndependent) {
  std::atomic<int> wrong{0};
  const auto work = [&wrong](const char* off, const char* expected) {
    for (int i = 0; i < 200; ++i) {
      const ScopedPolicy scoped({.enable = {{off, false}}});
      for (int j = 0; j < 20; ++j) wrong += selected_backend() == expected ? 0 : 1;
    }
  };
  std::thread first(work, "alpha", "beta"), second(work, "beta", "alpha");
  first.join();
  second.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(Layers, ChangesBelowAScopeReachIt) {
  const ScopedPolicy scoped({.enable = {{"alpha", false}}});
  EXPECT_EQ(selected_backend(), "beta");
  fla::set_policy({.enable = {{"beta", false}}});
  EXPECT_EQ(selected_backend(), "gamma");
}

TEST_F(Layers, ScopeThatCannotStandIsNotOpened) {
  EXPECT_THROW(ScopedPolicy({.deny = {{"nobody"}}}), fla::ConfigError);
  EXPECT_EQ(selected_backend(), "alpha");
}

TEST_F(Layers, PolicyThatCannotStandChangesNothing) {
  fla::set_policy({.enable = {{"alpha", false}}});
  EXPECT_THROW(fla::set_policy({.enable = {{"nobody", true}}}), fla::ConfigError);
  EXPECT_EQ(selected_backend(), "beta");
}

TEST_F(Layers, LaterPreferenceReplacesTheEarlierOneForItsOp) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_PREFER", "mix=gamma"}};
  EXPECT_EQ(selected_backend(), "gamma");
  fla::set_policy({.prefer = {{"mix", {"beta"}}}});
  EXPECT_EQ(selected_backend(), "beta");
  {
    const ScopedPolicy scoped({.prefer = {{"mix", {}}}});
    EXPECT_EQ(selected_backend(), "alpha") << "an empty list takes the preference away";
  }
  fla::set_policy({.prefer = {{"kda", {}}}});
  EXPECT_EQ(selected_backend(), "gamma") << "what is said of another op leaves this one alone";
}

TEST_F(Layers, LaterOrderTakesAnEarlierPreferenceAway) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_PREFER", "mix=gamma"}};
  fla::set_policy({.order = {{"mix", {"beta", "gamma"}}}});
  EXPECT_EQ(selected_backend(), "beta");
  const ScopedPolicy scoped({.prefer = {{"mix", {"gamma"}}}});
  EXPECT_EQ(selected_backend(), "gamma") << "a later preference applies within an earlier order";
}

TEST_F(Layers, CurrentPolicyIsTheSumOfEnvironmentAndProgram) {
  const ReloadedEnvironment environment{{"FLA_TEST_ALPHA", "0"},
                                        {"FLA_BACKEND_ORDER", "mix=beta|alpha"},
                                        {"FLA_BACKEND_DENY", "gamma"},
                                        {"FLA_ON_FAILURE", "fallback"}};
  fla::set_policy({.enable = {{"beta", true}}, .allow = {{"mix.alpha", "beta"}}});
  const Policy policy = fla::current_policy();
  EXPECT_FALSE(policy.enable.at("alpha"));
  EXPECT_TRUE(policy.enable.at("beta"));
  EXPECT_EQ(policy.order.at("mix"), (std::vector<std::string>{"beta", "alpha"}));
  EXPECT_EQ(policy.deny, (std::vector<std::string>{"gamma"}));
  EXPECT_EQ(policy.allow, (std::vector<std::string>{"mix.alpha", "beta"}));
  EXPECT_EQ(policy.on_failure, fla::OnFailure::fallback);
}

}  // namespace
