#include "fla/conformance.h"

#include <gtest/gtest.h>

#include <string>

#include "fla/dispatch/plugins/plugin.h"

/// The suite that every backend of fla passes, one test a check, on the plugin that was just built.
namespace {

class LoadedPlugin : public testing::Environment {
  void SetUp() override {
    const fla::PluginStatus status = fla::load_plugin(PLUGIN_FILE);
    ASSERT_NE(status.state, "refused") << status.reason;
  }
};
const testing::Environment* const loaded = testing::AddGlobalTestEnvironment(new LoadedPlugin);

class Conformance : public testing::TestWithParam<std::string_view> {};

TEST_P(Conformance, Holds) {
  const fla::conformance::Report report = fla::conformance::run_check(
      "kda", "plugin_template", GetParam(), {.golden_dir = fla::conformance::golden_dir()});
  if (!report.skipped.empty()) GTEST_SKIP() << report.text();
  EXPECT_TRUE(report.ok()) << report.text();
}

INSTANTIATE_TEST_SUITE_P(PluginTemplate, Conformance, testing::ValuesIn(fla::conformance::checks("kda")),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
