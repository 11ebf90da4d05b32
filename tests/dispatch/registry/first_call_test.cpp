#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

/// What the program first_call prints to standard output under these variables.
std::vector<std::string> first_call(const std::string& variables, const std::string& op = "kda") {
  const std::string command = variables + " " + FLA_FIRST_CALL + " " + op;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::vector<std::string> lines;
  std::string line;
  for (int c; (c = std::fgetc(pipe)) != EOF;) {
    if (c == '\n') {
      lines.push_back(line);
      line.clear();
    } else {
      line += static_cast<char>(c);
    }
  }
  lines.push_back("exit " + std::to_string(::pclose(pipe)));
  return lines;
}

std::vector<std::string> twice(const std::string& line) { return {line, line, "exit 0"}; }

TEST(FirstCall, RunsInAnEmptyEnvironment) { EXPECT_EQ(first_call(""), twice("kda: ran")); }

TEST(FirstCall, ObeysTheEnvironment) {
  EXPECT_EQ(first_call("FLA_DISABLE_BACKEND_DISPATCH=1", "mix"), twice("mix: original"));
}

struct BadStart {
  const char* name;
  const char* variable;
  const char* message;
};

class BadFirstCall : public testing::TestWithParam<BadStart> {};

TEST_P(BadFirstCall, ThrowsEveryTimeAndRunsNothing) {
  const std::vector<std::string> lines = first_call(GetParam().variable);
  ASSERT_EQ(lines.size(), 3u);
  for (int i = 0; i < 2; ++i) {
    const std::string line = lines[static_cast<std::size_t>(i)];
    EXPECT_EQ(line.substr(0, line.find(" (known: ")), std::string("kda: ConfigError: ") + GetParam().message);
  }
}

const BadStart kBadStarts[] = {
    {"MasterSwitch", "FLA_DISABLE_BACKEND_DISPATCH=maybe",
     "FLA_DISABLE_BACKEND_DISPATCH: expected one of 0 1 true false on off yes no, got 'maybe'"},
    {"Order", "FLA_BACKEND_ORDER=nothing", "FLA_BACKEND_ORDER: expected op=backend, got 'nothing'"},
    {"Allow", "FLA_BACKEND_ALLOW=nobody", "FLA_BACKEND_ALLOW: no op has a backend 'nobody'"},
    {"Deny", "FLA_BACKEND_DENY=kda.nobody", "FLA_BACKEND_DENY: op kda has no backend 'nobody'"},
    {"Require", "FLA_BACKEND_REQUIRE=kda=nobody", "FLA_BACKEND_REQUIRE: op kda has no backend 'nobody'"},
    {"OnFailure", "FLA_ON_FAILURE=shrug", "FLA_ON_FAILURE: expected raise or fallback, got 'shrug'"},
    {"LogLevel", "FLA_LOG_LEVEL=loud",
     "FLA_LOG_LEVEL: expected one of trace debug info warn error off, got 'loud'"},
    {"Threads", "FLA_NUM_THREADS=0", "FLA_NUM_THREADS: expected a whole number from 1 to 1024, got '0'"},
};

INSTANTIATE_TEST_SUITE_P(Environment, BadFirstCall, testing::ValuesIn(kBadStarts),
                         [](const auto& test) { return test.param.name; });

TEST(FirstCall, LoadsTheBackendsAndTheirToggles) {
  EXPECT_EQ(first_call("", "mix"), twice("mix: starter"));
  EXPECT_EQ(first_call("FLA_TEST_STARTER=0", "mix"), twice("mix: original"));
}

TEST(FirstCall, WrongToggleOfABackendIsAnErrorEveryTime) {
  EXPECT_EQ(
      first_call("FLA_TEST_STARTER=perhaps", "mix"),
      twice(
          "mix: ConfigError: FLA_TEST_STARTER: expected one of 0 1 true false on off yes no, got 'perhaps'"));
}

}  // namespace
