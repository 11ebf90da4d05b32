#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fla/core/cuda_devices.h"
#include "fla/dispatch/observe/ops.h"
#include "tests/tools/program.h"

namespace fla::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string code(std::string_view text) { return std::string("`").append(text).append("`"); }

/// The op of that name in what `fla ops --json` printed.
Json listed_op(const Outcome& outcome, std::string_view name) {
  const Json json = Json::parse(outcome.out);
  for (const Json& op : json.at("ops")) {
    if (op.at("name") == name) return op;
  }
  return {};
}

TEST(OpsCommand, ListsFunctionsAndBackends) {
  const Outcome outcome = fla({"ops", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(listed_op(outcome, "common").at("functions"), Json({"l2_norm", "gate", "solve_tril"}));
  const Json kda = listed_op(outcome, "kda");
  EXPECT_EQ(kda.at("functions"), Json({"chunk_kda", "fused_recurrent_kda", "chunk_kda_backward", "replay_kda",
                                       "fold_kda", "kda_summary"}));
  for (const Json& backend : kda.at("backends")) {
    for (const char* field : {"name", "priority", "env_var", "enabled", "available", "reason", "functions"}) {
      EXPECT_TRUE(backend.contains(field)) << field;
    }
  }
}

TEST(OpsCommand, SaysWhatAToggleTurnedOff) {
  for (const OpStatus& op : ops()) {
    for (const BackendStatus& backend : op.backends) {
      const Outcome outcome =
          fla({"ops", "--json"}, {.variables = {{std::string(backend.info.env_var), "0"}}});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const Json json = listed_op(outcome, op.name);
      ASSERT_EQ(json.at("backends").size(), op.backends.size() + 1) << "the original kernels are one, too";
      for (std::size_t i = 0; i < op.backends.size(); ++i) {
        const BackendInfo& info = op.backends[i].info;
        const Json& listed = json.at("backends").at(i);
        ASSERT_EQ(listed.at("name"), info.name);
        EXPECT_EQ(listed.at("enabled"), info.default_enable && info.name != backend.info.name) << listed;
      }
    }
  }
}

TEST(OpsCommand, ListsTheOriginalKernelsLast) {
  for (const char* required : {"", "kda=cpu_simd"}) {
    const Outcome outcome = fla({"ops", "--json"}, {.variables = {{"FLA_BACKEND_REQUIRE", required}}});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json kda = listed_op(outcome, "kda"), original = kda.at("backends").back();
    EXPECT_EQ(original.at("name"), "original");
    EXPECT_EQ(original.at("functions"), kda.at("functions"));
    EXPECT_EQ(original.at("available"), true);
    EXPECT_EQ(original.at("enabled"), *required == '\0');
    EXPECT_EQ(original.at("reason"), *required == '\0' ? "" : "cpu_simd is required for kda");
    EXPECT_EQ(listed_op(outcome, "common").at("backends").back().at("name"), "original");
  }
}

TEST(OpsCommand, ListsDevicesOrWhyThereAreNone) {
  for (const char* command : {"ops", "env"}) {
    const Outcome outcome = fla({command, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json devices = Json::parse(outcome.out).at("devices");
    EXPECT_EQ(devices.at(0).at("name"), "cpu");
    EXPECT_EQ(devices.at(0).at("available"), true);
    if (cuda_devices().empty()) {
      ASSERT_EQ(devices.size(), 2u);
      EXPECT_EQ(devices[1].at("name"), "cuda");
      EXPECT_EQ(devices[1].at("available"), false);
      EXPECT_EQ(devices[1].at("reason"), why_no_cuda_device());
      EXPECT_THAT(fla({command}).out, HasSubstr("unavailable: " + std::string(why_no_cuda_device())));
    } else {
      EXPECT_EQ(devices.size(), 1 + cuda_devices().size());
    }
  }
}

TEST(EnvCommand, ShowsValuesAndEveryBackendsToggle) {
  const Outcome outcome = fla({"env", "--json"}, {.variables = {{"FLA_NUM_THREADS", "2"}}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::map<std::string, Json> values;
  const Json json = Json::parse(outcome.out);
  for (const Json& variable : json.at("variables")) values[variable.at("name")] = variable.at("value");
  EXPECT_EQ(values.at("FLA_NUM_THREADS"), "2");
  EXPECT_EQ(values.at("FLA_BACKEND_DENY"), nullptr);
  for (const OpStatus& op : ops()) {
    for (const BackendStatus& backend : op.backends) {
      EXPECT_TRUE(values.contains(std::string(backend.info.env_var))) << backend.info.name;
      for (const Variable& variable : backend.variables)
        EXPECT_TRUE(values.contains(std::string(variable.name)));
    }
  }
}

TEST(DocsCommand, PrintsTheTablesOfTheRegistry) {
  const std::string backends = fla({"docs", "--section", "backends"}).out;
  for (const OpStatus& op : ops()) {
    for (const BackendStatus& backend : op.backends)
      EXPECT_THAT(backends, HasSubstr(code(backend.info.name)));
  }
  EXPECT_THAT(backends, HasSubstr("`original`"));
  const std::string variables = fla({"docs", "--section", "variables"}).out;
  for (const Variable& variable : fla::variables()) EXPECT_THAT(variables, HasSubstr(code(variable.name)));
  const std::string arguments = fla({"docs", "--section", "arguments"}).out;
  for (const OpStatus& op : ops()) {
    for (const ArgumentTable table : op.tables) {
      for (const Argument& argument : table) {
        EXPECT_THAT(arguments, HasSubstr(code(argument.name)));
        EXPECT_THAT(arguments, HasSubstr(std::string(argument.doc)));
      }
    }
  }
  EXPECT_THAT(arguments, HasSubstr("Arguments of `kda`:"));
  EXPECT_THAT(arguments, HasSubstr("Arguments of `kda.chunk_kda_backward`:"));
  EXPECT_THAT(arguments, HasSubstr("Arguments of `common.solve_tril`:"));
}

TEST(DocsCommand, TellsOptionsFromFlagsAndWhatIsRequired) {
  const std::string commands = fla({"docs", "--section", "commands"}).out;
  for (const char* line : {"### `fla config check`\n\nsays whether a config file is right",
                           "| `--in VALUE` | yes | the case file |\n", "| `--json` | | print JSON |\n",
                           "| `files…` | yes | case files with expect.* tensors |\n"}) {
    EXPECT_THAT(commands, HasSubstr(line));
  }
  EXPECT_THAT(commands, Not(HasSubstr("--help")));
}

TEST(DocsCommand, DoesNotDependOnTheEnvironment) {
  const Outcome plain = fla({"docs"}),
                set = fla({"docs"}, {.variables = {{"FLA_NUM_THREADS", "1"}, {"FLA_LOG_LEVEL", "off"}}});
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.out, set.out);
}

TEST(DocsCommand, PrintsEverySectionWithoutOne) {
  const Outcome outcome = fla({"docs"});
  for (const char* section : {"backends", "variables", "arguments", "commands"}) {
    EXPECT_THAT(outcome.out, HasSubstr(fla({"docs", "--section", section}).out)) << section;
  }
}

}  // namespace
}  // namespace fla::testing
