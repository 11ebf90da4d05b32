#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/logging.h"
#include "fla/core/threads.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/mix.h"

namespace {

using fla::ConfigError;
using fla::Policy;
using fla_test::add;
using fla_test::error_text;
using fla_test::ScopedEnvironment;
using fla_test::selected_backend;

struct BadValue {
  const char* name;
  const char* variable;
  const char* value;
  std::string message;  // without the list of what is known
};

class BadVariable : public testing::TestWithParam<BadValue> {
 protected:
  fla::RegisteredBackend alpha_ = add({.name = "alpha", .priority = 1, .env_var = "FLA_TEST_ALPHA"});
  fla::RegisteredBackend beta_ = add({.name = "beta", .priority = 2});
};

TEST_P(BadVariable, IsAnErrorThatNamesItAndTheSettingsInForceStay) {
  const fla_test::ReloadedEnvironment good{{"FLA_BACKEND_DENY", "alpha"}};
  ASSERT_EQ(selected_backend(), "beta");
  const Policy before = fla::current_policy();
  {
    const ScopedEnvironment bad{{GetParam().variable, GetParam().value}};
    const std::string text = error_text<ConfigError>([] { fla::reload_environment(); });
    EXPECT_EQ(text.substr(0, text.find(" (known: ")),
              std::string(GetParam().variable) + ": " + GetParam().message);
    EXPECT_EQ(fla::current_policy(), before);
    EXPECT_EQ(selected_backend(), "beta");
  }
}

const std::string kSwitch = "expected one of 0 1 true false on off yes no, got ";

const BadValue kBadValues[] = {
    {"MasterSwitch", "FLA_DISABLE_BACKEND_DISPATCH", "2", kSwitch + "'2'"},
    {"Toggle", "FLA_TEST_ALPHA", "enabled", kSwitch + "'enabled'"},
    {"CheckVerifiers", "FLA_CHECK_VERIFIERS", "y", kSwitch + "'y'"},
    {"CheckIndices", "FLA_CHECK_INDICES", "always", kSwitch + "'always'"},
    {"OnFailure", "FLA_ON_FAILURE", "ignore", "expected raise or fallback, got 'ignore'"},
    {"LogLevel", "FLA_LOG_LEVEL", "verbose",
     "expected one of trace debug info warn error off, got 'verbose'"},
    {"BreakerThreshold", "FLA_BREAKER_THRESHOLD", "-1",
     "expected a whole number from 0 to 1000000, got '-1'"},
    {"BreakerWindow", "FLA_BREAKER_WINDOW_MS", "0", "expected a whole number from 1 to 86400000, got '0'"},
    {"BreakerCoolDown", "FLA_BREAKER_COOL_DOWN_MS", "30s",
     "expected a whole number from 0 to 86400000, got '30s'"},
    {"Nvtx", "FLA_NVTX", "always", kSwitch + "'always'"},
    {"Threads", "FLA_NUM_THREADS", "two", "expected a whole number from 1 to 1024, got 'two'"},
    {"OrderWithoutAnOp", "FLA_BACKEND_ORDER", "alpha|beta", "expected op=backend, got 'alpha|beta'"},
    {"OrderWithoutBackends", "FLA_BACKEND_ORDER", "mix=", "expected op=backend, got 'mix='"},
    {"OrderOfAnUnknownOp", "FLA_BACKEND_ORDER", "mux=alpha", "there is no op 'mux'"},
    {"OrderWithAnUnknownBackend", "FLA_BACKEND_ORDER", "mix=alpha|omega", "op mix has no backend 'omega'"},
    {"OrderWithABackendOfAnotherOp", "FLA_BACKEND_ORDER", "kda=alpha", "op kda has no backend 'alpha'"},
    {"OrderWithABackendTwice", "FLA_BACKEND_ORDER", "mix=alpha|alpha", "alpha stands twice for op mix"},
    {"OrderWithAnOpTwice", "FLA_BACKEND_ORDER", "mix=alpha;mix=beta",
     "op mix stands twice in 'mix=alpha;mix=beta'"},
    {"OrderWithAHole", "FLA_BACKEND_ORDER", "mix=alpha||beta",
     "expected a name before '|' in 'mix=alpha||beta'"},
    {"PreferWithoutAnOp", "FLA_BACKEND_PREFER", "alpha", "expected op=backend, got 'alpha'"},
    {"PreferOfAnUnknownOp", "FLA_BACKEND_PREFER", "mux=alpha", "there is no op 'mux'"},
    {"PreferOfAnUnknownBackend", "FLA_BACKEND_PREFER", "mix=omega", "op mix has no backend 'omega'"},
    {"PreferOfABackendTwice", "FLA_BACKEND_PREFER", "mix=beta|beta", "beta stands twice for op mix"},
    {"AllowOfAnUnknownBackend", "FLA_BACKEND_ALLOW", "alpha,omega", "no op has a backend 'omega'"},
    {"AllowOfAnUnknownOp", "FLA_BACKEND_ALLOW", "mux.alpha", "there is no op 'mux'"},
    {"AllowOfABackendOfAnotherOp", "FLA_BACKEND_ALLOW", "kda.alpha", "op kda has no backend 'alpha'"},
    {"AllowWithAHole", "FLA_BACKEND_ALLOW", "alpha,,beta", "expected a name before ',' in 'alpha,,beta'"},
    {"DenyOfAnUnknownBackend", "FLA_BACKEND_DENY", "omega", "no op has a backend 'omega'"},
    {"DenyOfAnUnknownOp", "FLA_BACKEND_DENY", "mux.alpha", "there is no op 'mux'"},
    {"RequireWithoutAnOp", "FLA_BACKEND_REQUIRE", "alpha", "expected op=backend, got 'alpha'"},
    {"RequireOfAnUnknownOp", "FLA_BACKEND_REQUIRE", "mux=alpha", "there is no op 'mux'"},
    {"RequireOfAnUnknownBackend", "FLA_BACKEND_REQUIRE", "mix=omega", "op mix has no backend 'omega'"},
    {"RequireWithAnOpTwice", "FLA_BACKEND_REQUIRE", "mix=alpha;mix=beta",
     "op mix stands twice in 'mix=alpha;mix=beta'"},
};

INSTANTIATE_TEST_SUITE_P(Environment, BadVariable, testing::ValuesIn(kBadValues),
                         [](const auto& test) { return test.param.name; });

class BadSettings : public testing::Test {
 protected:
  fla::RegisteredBackend alpha_ = add({.name = "alpha"});
};

TEST_F(BadSettings, MessageListsWhatIsKnown) {
  EXPECT_EQ(error_text<ConfigError>([] {
              fla::set_policy({.require = {{"mix", "omega"}}});
            }),
            "Policy::require: op mix has no backend 'omega' (known: alpha)");
  EXPECT_EQ(error_text<ConfigError>([] {
              fla::set_policy({.order = {{"mux", {"alpha"}}}});
            }).substr(0, 36),
            "Policy::order: there is no op 'mux' ");
}

TEST_F(BadSettings, PolicyIsHeldToTheSameRules) {
  EXPECT_THROW(fla::set_policy({.enable = {{"omega", true}}}), ConfigError);
  EXPECT_THROW(fla::set_policy({.order = {{"mix", {"alpha", "alpha"}}}}), ConfigError);
  EXPECT_THROW(fla::set_policy({.prefer = {{"mix", {"omega"}}}}), ConfigError);
  EXPECT_THROW(fla::set_policy({.allow = {{"omega"}}}), ConfigError);
  EXPECT_THROW(fla::set_policy({.deny = {{"mux.alpha"}}}), ConfigError);
  EXPECT_EQ(fla::current_policy().deny, std::nullopt);
}

TEST_F(BadSettings, NothingOfAReloadThatFailsIsTaken) {
  const fla_test::ReloadedEnvironment good{{"FLA_NUM_THREADS", "3"}, {"FLA_LOG_LEVEL", "error"}};
  const auto expect_unchanged = [] {
    EXPECT_THROW(fla::reload_environment(), ConfigError);
    EXPECT_EQ(selected_backend(), "alpha");
    EXPECT_EQ(fla::num_threads(), 3);
    EXPECT_FALSE(fla::log_enabled(spdlog::level::warn));
  };
  {
    const ScopedEnvironment bad{
        {"FLA_BACKEND_DENY", "alpha"}, {"FLA_NUM_THREADS", "5"}, {"FLA_LOG_LEVEL", "loud"}};
    expect_unchanged();
  }
  {
    const ScopedEnvironment bad{
        {"FLA_BACKEND_DENY", "alpha"}, {"FLA_NUM_THREADS", "none"}, {"FLA_LOG_LEVEL", "trace"}};
    expect_unchanged();
  }
}

TEST_F(BadSettings, EmptyVariablesSayNothing) {
  const ScopedEnvironment environment{{"FLA_BACKEND_DENY", "x"}, {"FLA_ON_FAILURE", "x"}};
  ::setenv("FLA_BACKEND_DENY", "", 1);
  ::setenv("FLA_ON_FAILURE", "", 1);
  EXPECT_NO_THROW(fla::reload_environment());
  EXPECT_EQ(selected_backend(), "alpha");
}

}  // namespace
