#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"

namespace {

using fla::testing::Outcome;

Outcome late_calls(const std::string& when, const std::map<std::string, std::string>& variables = {}) {
  return fla::testing::run_program({FLA_LATE_CALLS, when}, {.variables = variables});
}

struct Case {
  const char* when;
  const char* says;
};

class LateCalls : public testing::TestWithParam<Case> {};

TEST_P(LateCalls, AnswerAndCount) {
  const Outcome outcome = late_calls(GetParam().when);
  EXPECT_EQ(outcome.out, GetParam().says);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.code, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Ends, LateCalls,
    testing::Values(
        Case{"atexit", "atexit: right, counted\n"}, Case{"atexit-before", "atexit-before: right, counted\n"},
        Case{"static", "static: right, counted\n"}, Case{"in-the-end", "in-the-end: right, counted\n"},
        Case{"inside-a-region", "inside-a-region: right, counted\n"},
        Case{"thread_local", "thread_local: right, counted\nthread_local of main: right, counted\n"},
        Case{"key", "key: right, counted\n"},
        Case{"detached", "detached, static: right, counted\ndetached, in-the-end: right, counted\n"}),
    [](const auto& test) {
      std::string name = test.param.when;
      std::erase_if(name, [](char c) { return c == '-' || c == '_'; });
      return name;
    });

TEST(LateCalls, AnswerWhileAConfigFileIsWatched) {
  const fla::testing::TemporaryFolder folder;
  const std::string file = folder.write("fla.toml", "breaker.threshold = 1\n");
  const Outcome outcome = late_calls("watch", {{"FLA_CONFIG", file}});
  EXPECT_EQ(outcome.out, "watch, static: right, counted\nwatch, in-the-end: right, counted\n");
  EXPECT_EQ(outcome.code, 0);
}

TEST(LateCalls, TheFirstOfAllMayBeLate) {
  const Outcome outcome = late_calls("first-of-all", {{"FLA_LOG_LEVEL", "info"}});
  EXPECT_EQ(outcome.out, "first-of-all: right, counted\n");
  EXPECT_NE(outcome.err.find("chunk_kda -> cpu_simd"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.code, 0);
}

TEST(ClosedLibrary, StaysForItsThreads) {
  const fla::testing::TemporaryFolder folder;
  const std::string file = folder.write("fla.toml", "breaker.threshold = 1\n");
  const Outcome outcome =
      fla::testing::run_program({FLA_CLOSED_LIBRARY, FLA_LIBRARY}, {.variables = {{"FLA_CONFIG", file}}});
  EXPECT_EQ(outcome.out, "still there\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.code, 0);
}

}  // namespace
