#include "fla/core/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "fla/core/errors.h"
#include "fla/core/privilege.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"

namespace {

using fla::ConfigError;
using fla_test::error_text;

TEST(Environment, GivesTheValueAsItIsNow) {
  const fla_test::ScopedEnvironment environment{{"FLA_TEST_VALUE", "first"}};
  EXPECT_EQ(fla::environment("FLA_TEST_VALUE"), "first");
  ::setenv("FLA_TEST_VALUE", "second", 1);
  EXPECT_EQ(fla::environment("FLA_TEST_VALUE"), "second");
}

TEST(Environment, UnsetAndEmptyAreTheSame) {
  const fla_test::ScopedEnvironment environment{{"FLA_TEST_VALUE", "x"}};
  ::setenv("FLA_TEST_VALUE", "", 1);
  EXPECT_EQ(fla::environment("FLA_TEST_VALUE"), std::nullopt);
  ::unsetenv("FLA_TEST_VALUE");
  EXPECT_EQ(fla::environment("FLA_TEST_VALUE"), std::nullopt);
}

TEST(Environment, OfAPrivilegedProcessNamesNeitherCodeNorFiles) {
  const fla_test::ScopedEnvironment environment{{"FLA_CONFIG", "/tmp/config.toml"},
                                                {"FLA_PLUGIN_PATH", "/tmp"},
                                                {"NVTX_INJECTION64_PATH", "/tmp/x.so"},
                                                {"FLA_NUM_THREADS", "2"}};
  for (const char* name : {"FLA_CONFIG", "FLA_PLUGIN_PATH", "NVTX_INJECTION64_PATH"}) {
    EXPECT_TRUE(fla::environment(name, false)) << name;
    EXPECT_EQ(fla::environment(name, true), std::nullopt) << name;
    EXPECT_FALSE(fla::environment_beginning_with("", true).contains(name)) << name;
  }
  EXPECT_EQ(fla::environment("FLA_NUM_THREADS", true), "2");
  EXPECT_EQ(fla::environment_beginning_with("FLA_NUM", true),
            (std::map<std::string, std::string>{{"FLA_NUM_THREADS", "2"}}));
}

TEST(Environment, EveryVariableOfPathsIsOneThatPrivilegedProcessesIgnore) {
  for (const fla::Variable& variable : fla::variables()) {
    const bool is_path = variable.values.find("path") != std::string_view::npos;
    EXPECT_EQ(fla::names_code_or_file(variable.name), is_path) << variable.name;
  }
}

TEST(Switch, ReadsEveryWordInAnyCase) {
  for (const char* on : {"1", "true", "on", "yes", "TRUE", "On", "YES"})
    EXPECT_TRUE(fla::parse_switch("FLA_X", on)) << on;
  for (const char* off : {"0", "false", "off", "no", "FALSE", "Off", "NO"}) {
    EXPECT_FALSE(fla::parse_switch("FLA_X", off)) << off;
  }
}

TEST(Switch, AnythingElseIsAnErrorThatNamesTheVariableAndTheValue) {
  for (const char* bad : {"2", "", " 1", "1 ", "y", "enable", "-1", "01"}) {
    EXPECT_EQ(error_text<ConfigError>([bad] { fla::parse_switch("FLA_CPU_SIMD", bad); }),
              std::string("FLA_CPU_SIMD: expected one of 0 1 true false on off yes no, got '") + bad + "'");
  }
}

TEST(Number, ReadsWholeNumbersWithinTheLimits) {
  EXPECT_EQ(fla::parse_number("FLA_X", "1", 1, 1024), 1);
  EXPECT_EQ(fla::parse_number("FLA_X", "1024", 1, 1024), 1024);
  EXPECT_EQ(fla::parse_number("FLA_X", "-3", -5, 5), -3);
}

TEST(Number, AnythingElseIsAnErrorThatNamesTheVariableAndTheValue) {
  for (const char* bad :
       {"0", "1025", "", "two", "1.5", "1 ", " 1", "+1", "0x10", "99999999999999999999", "-1"}) {
    EXPECT_EQ(error_text<ConfigError>([bad] { fla::parse_number("FLA_NUM_THREADS", bad, 1, 1024); }),
              std::string("FLA_NUM_THREADS: expected a whole number from 1 to 1024, got '") + bad + "'");
  }
}

TEST(Variables, AreListedOnceWithAMeaning) {
  std::set<std::string_view> names;
  for (const fla::Variable& variable : fla::variables()) {
    EXPECT_TRUE(variable.name.starts_with("FLA_")) << variable.name;
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_FALSE(variable.values.empty()) << variable.name;
    EXPECT_FALSE(variable.meaning.empty()) << variable.name;
  }
  for (const char* name : {"FLA_DISABLE_BACKEND_DISPATCH", "FLA_BACKEND_ORDER", "FLA_BACKEND_PREFER",
                           "FLA_BACKEND_ALLOW", "FLA_BACKEND_DENY", "FLA_BACKEND_REQUIRE", "FLA_ON_FAILURE",
                           "FLA_BREAKER_THRESHOLD", "FLA_BREAKER_WINDOW_MS", "FLA_BREAKER_COOL_DOWN_MS",
                           "FLA_LOG_LEVEL", "FLA_NVTX", "FLA_NUM_THREADS"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
