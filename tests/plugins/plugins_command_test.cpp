#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/plugins/is_module.h"
#include "tests/plugins/plugin_folder.h"
#include "tests/tools/program.h"

namespace fla::testing {
namespace {

using fla_test::PluginFolder;
using Json = nlohmann::json;

Json plugins(const std::string& path, std::vector<std::string> words = {}) {
  words.insert(words.begin(), {"plugins", "--json"});
  const Outcome outcome = fla(words, {.variables = {{"FLA_PLUGIN_PATH", path}}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json listed = Json::parse(outcome.out);
  Json others = Json::array();
  for (const Json& plugin : listed.at("plugins")) {
    if (!fla_test::is_module(plugin.at("path"))) others.push_back(plugin);
  }
  return others;
}

TEST(PluginsCommand, ShowsWhatWasLoadedAndWhatWasRefusedAndWhy) {
  const PluginFolder folder;
  const std::string acme = folder.copy("acme"), throws = folder.copy("defective", "throws");
  EXPECT_EQ(plugins(folder.path()), Json::array({{{"path", acme},
                                                  {"name", "acme"},
                                                  {"state", "loaded"},
                                                  {"reason", ""},
                                                  {"library_version", "0.1.0"},
                                                  {"ops", {"kda"}},
                                                  {"backends", {"kda.acme"}}},
                                                 {{"path", throws},
                                                  {"name", "throws"},
                                                  {"state", "refused"},
                                                  {"reason", "its register function threw: no licence"},
                                                  {"library_version", "0.1.0"},
                                                  {"ops", {"kda"}},
                                                  {"backends", Json::array()}}}));
}

TEST(PluginsCommand, RunsNothingOfThemWhenToldNotTo) {
  const PluginFolder folder;
  folder.copy("acme");
  folder.copy("defective", "throws");
  const Json listed = plugins(folder.path(), {"--no-load"});
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].at("state"), "found");
  EXPECT_EQ(listed[0].at("ops"), Json({"kda"}));
  EXPECT_EQ(listed[1].at("state"), "found");
  EXPECT_EQ(listed[1].at("ops"), nullptr);
}

TEST(PluginsCommand, PrintsATable) {
  const PluginFolder folder;
  const std::string path = folder.write("text.so", "text");
  const Outcome outcome = fla({"plugins"}, {.variables = {{"FLA_PLUGIN_PATH", path}}});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, ::testing::HasSubstr("text"));
  EXPECT_THAT(outcome.out,
              ::testing::ContainsRegex("refused  not known +not known  " + path +
                                       " +is no shared library: it does not begin as an ELF file does\n"));
}

TEST(PluginsCommand, SaysWhenThereIsNone) {
  const bool modules = !Json::parse(fla({"plugins", "--json"}).out).at("plugins").empty();
  EXPECT_THAT(fla({"plugins"}).out,
              ::testing::StartsWith(modules ? "plugin " : "no plugins: FLA_PLUGIN_PATH names none"));
}

TEST(PluginsCommand, ExplainShowsRefusedPlugins) {
  const PluginFolder folder;
  const std::string throws = folder.copy("defective", "throws");
  const Outcome outcome = fla({"explain", "kda", "--shape", "B=1,T=64,H=1,K=64,V=64", "--json"},
                              {.variables = {{"FLA_PLUGIN_PATH", throws}}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("[FLA Plugin] " + throws + " refused: "));
  const Json explained = Json::parse(outcome.out);
  for (const Json& row : explained.at("backends")) {
    if (row.at("name") != "throws") continue;
    EXPECT_EQ(row.at("state"), "unavailable");
    EXPECT_EQ(row.at("reason"), "plugin " + throws + ": its register function threw: no licence");
    return;
  }
  FAIL() << explained;
}

TEST(ConformanceCommand, ChecksAPluginsBackendsAlone) {
  const PluginFolder folder;
  const std::string acme = folder.copy("acme");
  const Outcome outcome = fla({"conformance", "--plugin", acme, "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  std::istringstream lines(outcome.out);
  int checks = 0;
  for (std::string line; std::getline(lines, line); ++checks) {
    const Json report = Json::parse(line);
    EXPECT_EQ(report.at("backend"), "acme");
    EXPECT_EQ(report.at("ok"), true) << report;
  }
  EXPECT_EQ(checks, 23);
}

TEST(ConformanceCommand, BackendThatTakesNothingHasShownNothing) {
  const PluginFolder folder;
  const Outcome outcome = fla({"conformance", "--plugin", folder.copy("defective", "shy")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(
      outcome.out,
      ::testing::HasSubstr("kda.shy random: 0 calls, 378 refused, 1 failures\n  took none of 378 calls\n"));
  EXPECT_THAT(outcome.out,
              ::testing::ContainsRegex("kda.shy: FAILED 13 of 23 checks, 1 NOT SHOWN in full\n$"));
}

TEST(ConformanceCommand, WhatIsNotShownFailsUnlessItIsAllowed) {
  const PluginFolder folder;
  const std::string takes_no_golden_case = folder.copy("defective", "k96");
  const std::vector<std::string> call{"conformance", "--plugin", takes_no_golden_case,
                                      "--check",     "golden",   "empty_calls"};
  Outcome outcome = fla(call);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, ::testing::HasSubstr("  not shown: takes none of the golden cases\n"));
  EXPECT_THAT(outcome.out, ::testing::EndsWith("kda.k96: passed 1 checks, 1 NOT SHOWN in full\n"));
  std::vector<std::string> allowed = call;
  allowed.emplace_back("--allow-not-shown");
  outcome = fla(allowed);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
}

TEST(ConformanceCommand, RunsTheChecksThatAreAskedFor) {
  const Outcome outcome =
      fla({"conformance", "--backend", "original", "--op", "kda", "--check", "empty_calls"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::EndsWith("kda.original: passed 1 checks\n"));
  const Outcome unknown = fla({"conformance", "--check", "hope"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "fla: --check: expected the name of a check, got 'hope'\n");
}

}  // namespace
}  // namespace fla::testing
