#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/explained.h"
#include "tests/dispatch/mix.h"

namespace {

using fla::BackendError;
using fla::Policy;
using fla::ScopedPolicy;
using fla_test::add;
using fla_test::error_text;
using fla_test::MixArgs;
using fla_test::ReloadedEnvironment;
using fla_test::selected_backend;
using fla_test::standing_of;

/// Three backends that take everything, but beta only K=128: alpha, beta, gamma, in that order.
class Settings : public testing::Test {
 protected:
  static fla::Verdict only_128(const MixArgs& args) {
    return args.K == 128 ? fla::accept() : fla::refuse("requires K=128, got {}", args.K);
  }

  fla::RegisteredBackend alpha_ = add({.name = "alpha", .priority = 1, .env_var = "FLA_TEST_ALPHA"});
  fla::RegisteredBackend beta_ =
      add({.name = "beta", .priority = 2, .env_var = "FLA_TEST_BETA", .verify = only_128});
  fla::RegisteredBackend gamma_ =
      add({.name = "gamma", .priority = 3, .env_var = "FLA_TEST_GAMMA", .default_enable = false});
  fla::RegisteredBackend absent_ = add({.name = "absent", .priority = 4, .available = [] {
                                          return fla::Availability::no("not on this machine");
                                        }});
};

TEST_F(Settings, ToggleTurnsABackendOff) {
  const ReloadedEnvironment environment{{"FLA_TEST_ALPHA", "0"}};
  EXPECT_EQ(selected_backend(), "beta");
  EXPECT_EQ(standing_of("alpha"), "disabled: FLA_TEST_ALPHA=0");
}

TEST_F(Settings, ToggleTurnsOnWhatIsOffByDefault) {
  EXPECT_EQ(standing_of("gamma"), "disabled: off unless FLA_TEST_GAMMA=1");
  const ReloadedEnvironment environment{
      {"FLA_TEST_ALPHA", "no"}, {"FLA_TEST_BETA", "OFF"}, {"FLA_TEST_GAMMA", "yes"}};
  EXPECT_EQ(selected_backend(), "gamma");
}

TEST_F(Settings, BatchInvarianceAsksThoseAloneWhoPromiseIt) {
  const auto delta = add({.name = "delta", .priority = 5, .batch_invariant = true});
  const std::string refusal =
      "refused: does not promise the same bits in any batch, which FLA_BATCH_INVARIANT asks for";
  EXPECT_FALSE(fla::batch_invariant());
  {
    const ReloadedEnvironment environment{{"FLA_BATCH_INVARIANT", "1"}};
    EXPECT_TRUE(fla::batch_invariant());
    EXPECT_EQ(selected_backend(), "delta");
    EXPECT_EQ(standing_of("alpha"), refusal);
    const ScopedPolicy scope({.batch_invariant = false});
    EXPECT_FALSE(fla::batch_invariant());
    EXPECT_EQ(selected_backend(), "alpha");
  }
  {
    const ScopedPolicy outer({.batch_invariant = true}), inner({.deny = {{"beta"}}});
    EXPECT_TRUE(fla::batch_invariant());
    EXPECT_EQ(selected_backend(), "delta");
  }
  fla::set_policy({.require = {{"mix", "alpha"}}, .batch_invariant = true});
  EXPECT_TRUE(fla::batch_invariant());
  EXPECT_EQ(error_text<BackendError>([] { fla_test::mix_chunk({}); }),
            "mix.mix_chunk: backend alpha is required and " + refusal);
  fla::set_policy({});
  EXPECT_FALSE(fla::batch_invariant());
  EXPECT_EQ(selected_backend(), "alpha");
}

TEST_F(Settings, AVerifierSeesBatchInvariance) {
  const auto delta = add({.name = "delta",
                          .priority = 0,
                          .verify =
                              [](const MixArgs&) {
                                return fla::batch_invariant() ? fla::refuse("cannot promise it for this call")
                                                              : fla::accept();
                              },
                          .batch_invariant = true});
  EXPECT_EQ(selected_backend(), "delta");
  const ScopedPolicy scope({.batch_invariant = true});
  EXPECT_EQ(standing_of("delta"), "refused: cannot promise it for this call");
  EXPECT_EQ(selected_backend(), "original");
}

TEST_F(Settings, EnvironmentIsReadAgainOnlyWhenAsked) {
  const fla_test::ScopedEnvironment environment{{"FLA_TEST_ALPHA", "0"}};
  EXPECT_EQ(selected_backend(), "alpha");
  fla::reload_environment();
  EXPECT_EQ(selected_backend(), "beta");
}

TEST_F(Settings, ToggleOfABackendThatIsAddedLaterHolds) {
  const ReloadedEnvironment environment{{"FLA_TEST_LATER", "0"}};
  const auto later = add({.name = "later", .priority = 0, .env_var = "FLA_TEST_LATER"});
  EXPECT_EQ(selected_backend(), "alpha");
  EXPECT_EQ(standing_of("later"), "disabled: FLA_TEST_LATER=0");
}

TEST_F(Settings, BackendWhoseToggleIsWrongIsNotAdded) {
  const ReloadedEnvironment environment{{"FLA_TEST_LATER", "perhaps"}};
  EXPECT_EQ(error_text<fla::ConfigError>(
                [] { (void)add({.name = "later", .priority = 0, .env_var = "FLA_TEST_LATER"}); }),
            "FLA_TEST_LATER: expected one of 0 1 true false on off yes no, got 'perhaps'");
  EXPECT_EQ(selected_backend(), "alpha");
  EXPECT_EQ(standing_of("later"), "absent");
}

TEST_F(Settings, PolicyTurnsBackendsOnAndOff) {
  const ScopedPolicy policy({.enable = {{"alpha", false}, {"beta", false}, {"gamma", true}}});
  EXPECT_EQ(selected_backend(), "gamma");
  EXPECT_EQ(standing_of("alpha"), "disabled: turned off by the policy");
}

TEST_F(Settings, MasterSwitchRunsTheOriginalOnly) {
  const ReloadedEnvironment environment{{"FLA_DISABLE_BACKEND_DISPATCH", "1"}};
  EXPECT_EQ(selected_backend(), "original");
  const fla::Explanation explanation = fla::explain("mix", "mix_chunk", MixArgs{});
  EXPECT_FALSE(explanation.dispatch_enabled);
  EXPECT_EQ(explanation.selected, "original");
  EXPECT_EQ(fla_test::row_of("alpha", explanation).state, "accepted");
}

TEST_F(Settings, OrderReplacesPriorities) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_ORDER", "mix=beta|alpha"}};
  EXPECT_EQ(selected_backend({.K = 128}), "beta");
  EXPECT_EQ(selected_backend({.K = 64}), "alpha");
  const fla::Explanation explanation = fla::explain("mix", "mix_chunk", MixArgs{});
  EXPECT_EQ(explanation.rows.at(0).name, "beta");
  EXPECT_EQ(explanation.rows.at(1).name, "alpha");
}

TEST_F(Settings, UnlistedBackendsAreNotUsed) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_ORDER", "mix=beta"}};
  EXPECT_EQ(selected_backend({.K = 64}), "original");
  EXPECT_EQ(standing_of("alpha"), "denied: not named in the order for mix");
}

TEST_F(Settings, OrderOfAnotherOpChangesNothing) {
  const ScopedPolicy policy({.order = {{"kda", {}}}});
  EXPECT_EQ(selected_backend(), "alpha");
}

TEST_F(Settings, PreferredBackendsAreAskedFirstAndTheOthersAfterThem) {
  const auto delta = add({.name = "delta", .priority = 5});
  const ReloadedEnvironment environment{{"FLA_BACKEND_PREFER", "mix=delta|beta"}};
  EXPECT_EQ(selected_backend(), "delta");
  std::string asked;
  for (const fla::Explanation::Row& row : fla::explain("mix", "mix_chunk", MixArgs{}).rows) {
    asked += row.name + (row.preferred ? "* " : " ");
  }
  EXPECT_THAT(asked, testing::StartsWith("delta* beta* alpha gamma absent "));
}

TEST_F(Settings, PreferredBackendThatRefusesLeavesTheCallToTheOthers) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_PREFER", "mix=beta"}};
  EXPECT_EQ(selected_backend({.K = 128}), "beta");
  EXPECT_EQ(selected_backend({.K = 64}), "alpha");
}

TEST_F(Settings, PreferenceForAnotherOpChangesNothing) {
  const ScopedPolicy policy({.prefer = {{"kda", {}}}});
  EXPECT_EQ(selected_backend(), "alpha");
}

TEST_F(Settings, PreferenceAppliesWithinTheOrder) {
  const auto delta = add({.name = "delta", .priority = 5});
  const ScopedPolicy policy({.order = {{"mix", {"alpha", "delta"}}}, .prefer = {{"mix", {"beta", "delta"}}}});
  EXPECT_EQ(selected_backend(), "delta");
  EXPECT_EQ(standing_of("beta"), "denied: not named in the order for mix");
}

TEST_F(Settings, PreferenceEnablesNoBackend) {
  const std::map<std::string, std::vector<std::string>> prefer{{"mix", {"absent", "gamma", "beta"}}};
  {
    const ScopedPolicy policy({.prefer = prefer, .deny = {{"beta"}}});
    EXPECT_EQ(selected_backend(), "alpha");
    EXPECT_EQ(standing_of("absent"), "unavailable: not on this machine");
    EXPECT_EQ(standing_of("gamma"), "disabled: off unless FLA_TEST_GAMMA=1");
    EXPECT_EQ(standing_of("beta"), "denied: named in the deny list");
  }
  {
    const ScopedPolicy policy({.prefer = prefer, .allow = {{"alpha"}}});
    EXPECT_EQ(selected_backend(), "alpha");
    EXPECT_EQ(standing_of("beta"), "denied: not named in the allow list");
  }
  {
    const ScopedPolicy policy({.prefer = prefer, .require = {{"mix", "alpha"}}});
    EXPECT_EQ(selected_backend(), "alpha");
    EXPECT_EQ(standing_of("beta"), "denied: alpha is required for mix");
  }
  const ScopedPolicy policy({.disable_dispatch = true, .prefer = prefer});
  EXPECT_EQ(selected_backend(), "original");
}

TEST_F(Settings, ExplainSaysWhoIsPreferred) {
  const ScopedPolicy policy({.prefer = {{"mix", {"absent", "beta"}}}});
  const fla::Explanation explanation = fla::explain("mix", "mix_chunk", MixArgs{});
  EXPECT_THAT(explanation.text(),
              testing::StartsWith("mix.mix_chunk -> beta\n"
                                  "  absent       4  unavailable  not on this machine; preferred\n"
                                  "  beta         2  selected     preferred\n"
                                  "  alpha        1  accepted\n"));
  const auto backends = nlohmann::json::parse(explanation.json()).at("backends");
  EXPECT_EQ(backends.at(1).at("preferred"), true);
  EXPECT_FALSE(backends.at(2).contains("preferred"));
}

TEST_F(Settings, ListsMayHaveSpaces) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_ORDER", " mix = beta | alpha ; "},
                                        {"FLA_BACKEND_ALLOW", " alpha , mix.beta ,"}};
  EXPECT_EQ(selected_backend(), "beta");
}

TEST_F(Settings, AllowExcludesUnlistedBackends) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_ALLOW", "beta"}};
  EXPECT_EQ(selected_backend({.K = 128}), "beta");
  EXPECT_EQ(selected_backend({.K = 64}), "original");
  EXPECT_EQ(standing_of("alpha"), "denied: not named in the allow list");
}

TEST_F(Settings, AllowMayBeForOneOpAlone) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_ALLOW", "mix.beta"}};
  EXPECT_EQ(selected_backend(), "beta");
}

TEST_F(Settings, AllowDoesNotTurnOnWhatIsOff) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_ALLOW", "gamma"}};
  EXPECT_EQ(selected_backend(), "original");
}

TEST_F(Settings, DenyTakesABackendOut) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_DENY", "alpha"}};
  EXPECT_EQ(selected_backend(), "beta");
  EXPECT_EQ(standing_of("alpha"), "denied: named in the deny list");
}

TEST_F(Settings, DenyMayBeForOneOpAlone) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_DENY", "mix.alpha,mix.beta"}};
  EXPECT_EQ(selected_backend(), "original");
}

TEST_F(Settings, DenyWinsOverAllow) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_ALLOW", "alpha,beta"}, {"FLA_BACKEND_DENY", "alpha"}};
  EXPECT_EQ(selected_backend(), "beta");
}

TEST_F(Settings, RequiredBackendTakesTheCall) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_REQUIRE", "mix=beta"}};
  EXPECT_EQ(selected_backend({.K = 128}), "beta");
  EXPECT_EQ(standing_of("alpha"), "denied: beta is required for mix");
}

TEST_F(Settings, RequiredBackendThatRefusesIsAnErrorWithItsReason) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_REQUIRE", "mix=beta"}};
  EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend({.K = 64}); }),
            "mix.mix_chunk: backend beta is required and refused: requires K=128, got 64");
  const fla::Explanation explanation = fla::explain("mix", "mix_chunk", MixArgs{.K = 64});
  EXPECT_EQ(explanation.selected, "");
  EXPECT_EQ(explanation.error, "backend beta is required and refused: requires K=128, got 64");
}

TEST_F(Settings, RequiredBackendThatIsUnavailableIsAnErrorWithItsReason) {
  const ScopedPolicy policy({.require = {{"mix", "absent"}}});
  EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend(); }),
            "mix.mix_chunk: backend absent is required and is unavailable: not on this machine");
}

TEST_F(Settings, RequiredBackendThatIsDisabledIsAnErrorWithItsReason) {
  const ReloadedEnvironment environment{{"FLA_BACKEND_REQUIRE", "mix=alpha"}, {"FLA_TEST_ALPHA", "0"}};
  EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend(); }),
            "mix.mix_chunk: backend alpha is required and is disabled: FLA_TEST_ALPHA=0");
}

TEST_F(Settings, RequiredBackendThatIsDeniedIsAnErrorWithItsReason) {
  const ScopedPolicy policy({.deny = {{"alpha"}}, .require = {{"mix", "alpha"}}});
  EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend(); }),
            "mix.mix_chunk: backend alpha is required and is denied: named in the deny list");
}

TEST_F(Settings, RequiredBackendWithoutAnImplementationIsAnError) {
  const ScopedPolicy policy({.require = {{"mix", "alpha"}}});
  EXPECT_EQ(error_text<BackendError>([] { (void)fla_test::mix_step({}); }),
            "mix.mix_step: backend alpha is required and is not_implemented: has no mix_step");
}

TEST_F(Settings, RequiredBackendThatLeftIsAnErrorForCallsAndForExplain) {
  auto leaving = std::make_unique<fla::RegisteredBackend>(add({.name = "leaving"}));
  const ScopedPolicy policy({.require = {{"mix", "leaving"}}});
  EXPECT_EQ(selected_backend(), "leaving");
  leaving.reset();
  EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend(); }),
            "mix.mix_chunk: backend leaving is required and is gone");
  EXPECT_EQ(fla::explain("mix", "mix_chunk", MixArgs{}).selected, "");
}

TEST_F(Settings, NothingWasWrittenWhenTheRequiredBackendRefuses) {
  const ScopedPolicy policy({.require = {{"mix", "absent"}}});
  try {
    (void)selected_backend();
    FAIL() << "nothing was thrown";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.wrote(), BackendError::Wrote::nothing);
  }
}

TEST_F(Settings, RequireAndDisabledDispatchContradictEachOther) {
  const std::string message =
      "FLA_BACKEND_REQUIRE: mix=alpha cannot be met while dispatch is disabled "
      "(FLA_DISABLE_BACKEND_DISPATCH)";
  const Policy both{.disable_dispatch = true, .require = {{"mix", "alpha"}}};
  EXPECT_EQ(error_text<fla::ConfigError>([&] { fla::set_policy(both); }), message);
  EXPECT_EQ(error_text<fla::ConfigError>([&] { const ScopedPolicy scoped(both); }), message);
  {
    const ReloadedEnvironment disabled{{"FLA_DISABLE_BACKEND_DISPATCH", "1"}};
    EXPECT_EQ(error_text<fla::ConfigError>([&] {
                fla::set_policy({.require = {{"mix", "alpha"}}});
              }),
              message);
  }
  const fla_test::ScopedEnvironment environment{{"FLA_DISABLE_BACKEND_DISPATCH", "1"},
                                                {"FLA_BACKEND_REQUIRE", "mix=alpha"}};
  EXPECT_EQ(error_text<fla::ConfigError>([] { fla::reload_environment(); }), message);
  EXPECT_EQ(selected_backend(), "alpha") << "the settings in force stay";
}

TEST_F(Settings, ProcessesMayOpenForOneOpWhatTheyCloseForAll) {
  const ScopedPolicy outer({.disable_dispatch = true});
  EXPECT_EQ(selected_backend(), "original");
  const ScopedPolicy inner({.disable_dispatch = false, .require = {{"mix", "alpha"}}});
  EXPECT_EQ(selected_backend(), "alpha");
}

}  // namespace
