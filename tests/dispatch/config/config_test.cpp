#include "fla/dispatch/config/config.h"

#include <gtest/gtest.h>

#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/explain.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/config/config_in_force.h"
#include "tests/dispatch/config/ruled.h"
#include "tests/tools/program.h"

namespace {

using fla::ConfigError;
using fla::Policy;
using fla::ScopedPolicy;
using fla_test::add_ruled;
using fla_test::arguments_of;
using fla_test::Call;
using fla_test::ConfigInForce;
using fla_test::error_text;
using fla_test::ReloadedEnvironment;
using fla_test::ruled_backend;
using fla_test::ScopedEnvironment;

/// Three backends that take everything: alpha, beta, gamma, in that order.
class Config : public testing::Test {
 protected:
  fla::RegisteredBackend alpha_ = add_ruled("alpha", 1);
  fla::RegisteredBackend beta_ = add_ruled("beta", 2);
  fla::RegisteredBackend gamma_ = add_ruled("gamma", 3);
};

const std::string kShortToBeta = "[[rule]]\nop = 'ruled'\nwhen = 'T < 64'\norder = ['beta']\n";

TEST_F(Config, SettingsOfTheFileHold) {
  const ConfigInForce config("deny = ['alpha']\n");
  EXPECT_EQ(ruled_backend(), "beta");
  EXPECT_EQ(fla::current_policy(), (Policy{.deny = {{"alpha"}}}));
}

TEST_F(Config, RulesHoldForTheCallsThatTheySpeakOf) {
  const ConfigInForce config(kShortToBeta);
  EXPECT_EQ(ruled_backend({.T = 63}), "beta");
  EXPECT_EQ(ruled_backend({.T = 64}), "alpha");
}

TEST_F(Config, FirstMatchingRuleApplies) {
  const ConfigInForce config(kShortToBeta +
                             "[[rule]]\nop = 'ruled'\nwhen = 'fast'\norder = ['gamma']\n"
                             "[[rule]]\nop = 'ruled'\ndisable_dispatch = true\n");
  EXPECT_EQ(ruled_backend({.T = 8, .fast = true}), "beta");
  EXPECT_EQ(ruled_backend({.T = 80, .fast = true}), "gamma");
  EXPECT_EQ(ruled_backend({.T = 80}), "original");
}

TEST_F(Config, RuleComesOnTopOfTheFilesOtherSettings) {
  const ConfigInForce config("deny = ['beta']\n[order]\nruled = ['gamma', 'alpha']\n" + kShortToBeta);
  EXPECT_EQ(ruled_backend({.T = 8}), "original") << "beta is denied for every call";
  EXPECT_EQ(ruled_backend({.T = 80}), "gamma");
}

TEST_F(Config, RuleMaySetEverythingThatItMay) {
  const ConfigInForce config(
      "[[rule]]\nop = 'ruled'\nwhen = 'T == 1'\nallow = ['gamma']\n"
      "[[rule]]\nop = 'ruled'\nwhen = 'T == 2'\ndeny = ['alpha']\n"
      "[[rule]]\nop = 'ruled'\nwhen = 'T == 3'\nrequire = 'gamma'\n"
      "[[rule]]\nop = 'ruled'\nwhen = 'T == 4'\ndisable_dispatch = true\n");
  EXPECT_EQ(ruled_backend({.T = 1}), "gamma");
  EXPECT_EQ(ruled_backend({.T = 2}), "beta");
  EXPECT_EQ(ruled_backend({.T = 3}), "gamma");
  EXPECT_EQ(ruled_backend({.T = 4}), "original");
  EXPECT_EQ(ruled_backend({.T = 5}), "alpha");
}

TEST_F(Config, FileAndRulesMayPrefer) {
  const ConfigInForce config(
      "[prefer]\nruled = ['gamma']\n"
      "[[rule]]\nop = 'ruled'\nwhen = 'T == 1'\nprefer = ['beta']\n"
      "[[rule]]\nop = 'ruled'\nwhen = 'T == 2'\norder = ['alpha', 'gamma']\n"
      "[[rule]]\nop = 'ruled'\nwhen = 'T == 3'\ndeny = ['gamma']\n");
  EXPECT_EQ(ruled_backend({.T = 1}), "beta");
  EXPECT_EQ(ruled_backend({.T = 2}), "alpha") << "a rule's order takes the file's preference away";
  EXPECT_EQ(ruled_backend({.T = 3}), "alpha");
  EXPECT_EQ(ruled_backend({.T = 4}), "gamma");
  const ReloadedEnvironment environment{{"FLA_BACKEND_PREFER", "ruled=alpha"}};
  EXPECT_EQ(ruled_backend({.T = 1}), "alpha");
  EXPECT_EQ(ruled_backend({.T = 4}), "alpha");
}

TEST_F(Config, EnvironmentComesOnTopOfTheFileAndItsRules) {
  const ConfigInForce config("[order]\nruled = ['gamma']\n" + kShortToBeta);
  ASSERT_EQ(ruled_backend({.T = 8}), "beta");
  ASSERT_EQ(ruled_backend({.T = 80}), "gamma");
  const ReloadedEnvironment environment{{"FLA_BACKEND_ORDER", "ruled=alpha"}};
  EXPECT_EQ(ruled_backend({.T = 8}), "alpha");
  EXPECT_EQ(ruled_backend({.T = 80}), "alpha");
}

TEST_F(Config, PoliciesComeOnTopOfTheEnvironment) {
  const ConfigInForce config(kShortToBeta);
  fla::set_policy({.order = {{"ruled", {"gamma", "alpha"}}}});
  EXPECT_EQ(ruled_backend({.T = 8}), "gamma");
  {
    const ScopedPolicy scoped({.deny = {{"gamma"}}});
    EXPECT_EQ(ruled_backend({.T = 8}), "alpha");
  }
  fla::set_policy({});
  EXPECT_EQ(ruled_backend({.T = 8}), "beta");
}

TEST_F(Config, RulesHoldWithinAScopedPolicy) {
  const ConfigInForce config(kShortToBeta);
  const ScopedPolicy scoped({.deny = {{"alpha"}}});
  EXPECT_EQ(ruled_backend({.T = 8}), "beta");
  EXPECT_EQ(ruled_backend({.T = 80}), "beta");
  const ScopedPolicy inner({.deny = {{"beta"}}});
  EXPECT_EQ(ruled_backend({.T = 8}), "original");
}

TEST_F(Config, RuleSaysNothingAboutFunctionsThatLackWhatItAsksFor) {
  const ConfigInForce config(kShortToBeta + "[[rule]]\nop = 'ruled'\nwhen = 'K == 64'\norder = ['gamma']\n");
  const fla_test::RuledStepArgs args{.x = fla::TensorView(nullptr, fla::DType::f32, {1, 2, 64})};
  EXPECT_EQ(fla_test::ruled_step(args).by, "gamma");
}

TEST_F(Config, ExplainNamesTheRule) {
  const ConfigInForce config("\n" + kShortToBeta);
  const fla::Explanation explanation = fla::explain("ruled", "ruled_chunk", arguments_of({.T = 8}));
  EXPECT_EQ(explanation.rule, config.path() + ":2");
  EXPECT_EQ(explanation.selected, "beta");
  EXPECT_EQ(fla::explain("ruled", "ruled_chunk", arguments_of({.T = 80})).rule, "");
}

TEST_F(Config, PlanIsMadeByTheRules) {
  const ConfigInForce config(kShortToBeta);
  EXPECT_EQ(fla::plan("ruled", "ruled_chunk", arguments_of({.T = 8})).backend(), "beta");
  EXPECT_EQ(fla::plan("ruled", "ruled_chunk", arguments_of({.T = 80})).backend(), "alpha");
}

TEST_F(Config, GoesWithTheVariable) {
  {
    const ConfigInForce config("deny = ['alpha']\n");
    ASSERT_EQ(ruled_backend(), "beta");
  }
  EXPECT_EQ(ruled_backend(), "alpha");
}

TEST_F(Config, FileThatIsWrongIsAnErrorOfTheReloadAndChangesNothing) {
  const ConfigInForce config("deny = ['alpha']\n");
  const fla::testing::TemporaryFolder folder;
  const std::string path = folder.write("bad.toml", "\ndeny = ['alhpa']\n");
  {
    const ScopedEnvironment environment{{"FLA_CONFIG", path}};
    EXPECT_EQ(error_text<ConfigError>([] { fla::reload_environment(); }),
              "FLA_CONFIG: " + path + ":2: deny: no op has a backend 'alhpa'; did you mean 'alpha'?");
    EXPECT_EQ(ruled_backend(), "beta");
  }
  const ScopedEnvironment environment{{"FLA_CONFIG", folder / "none.toml"}};
  EXPECT_EQ(error_text<ConfigError>([] { fla::reload_environment(); }),
            "FLA_CONFIG: " + folder / "none.toml" + ": cannot be read: No such file or directory");
  EXPECT_EQ(ruled_backend(), "beta");
}

TEST_F(Config, FileThatContradictsTheEnvironmentIsAnError) {
  const fla::testing::TemporaryFolder folder;
  const std::string path = folder.write("c.toml", "[require]\nruled = 'alpha'\n");
  const ScopedEnvironment environment{{"FLA_CONFIG", path}, {"FLA_DISABLE_BACKEND_DISPATCH", "1"}};
  EXPECT_THROW(fla::reload_environment(), ConfigError);
  EXPECT_EQ(ruled_backend(), "alpha");
}

TEST(ConfigOfAProcess, IsReadBeforeTheFirstCall) {
  const fla::testing::TemporaryFolder folder;
  const std::string path = folder.write("c.toml", "deny = ['starter']\n");
  const auto outcome =
      fla::testing::run_program({FLA_FIRST_CALL, "mix"}, {.variables = {{"FLA_CONFIG", path}}});
  EXPECT_EQ(outcome.out, "mix: original\nmix: original\n");
}

TEST(ConfigOfAProcess, ThatIsWrongIsAnErrorOfEveryCall) {
  const fla::testing::TemporaryFolder folder;
  const std::string path = folder.write("c.toml", "denny = ['starter']\n");
  const auto outcome =
      fla::testing::run_program({FLA_FIRST_CALL, "mix"}, {.variables = {{"FLA_CONFIG", path}}});
  const std::string line =
      "mix: ConfigError: FLA_CONFIG: " + path + ":1: unknown key 'denny'; did you mean 'deny'?\n";
  EXPECT_EQ(outcome.out, line + line);
}

TEST_F(Config, CanBeCheckedWithoutBeingUsed) {
  const fla::testing::TemporaryFolder folder;
  const fla::ConfigSummary summary =
      fla::check_config(folder.write("c.toml", "deny = ['alpha']\n" + kShortToBeta + kShortToBeta));
  EXPECT_EQ(summary.rules, 2u);
  EXPECT_EQ(summary.policy, (Policy{.deny = {{"alpha"}}}));
  EXPECT_EQ(ruled_backend(), "alpha");
  const std::string bad = folder.write("bad.toml", "[order]\nruld = []\n");
  EXPECT_EQ(error_text<ConfigError>([&] { (void)fla::check_config(bad); }),
            bad + ":2: order: there is no op 'ruld'; did you mean 'ruled'?");
}

}  // namespace
