#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/program.h"

namespace fla::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

TEST(BenchDispatch, HasTheBenchmarksByName) {
  const Outcome outcome = run_program({FLA_BENCH_DISPATCH, "--benchmark_min_time=0.0001",
                                       "--benchmark_repetitions=1", "--benchmark_format=json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::set<std::string> names;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  for (const auto& run : json.at("benchmarks")) names.insert(run.at("name"));
  EXPECT_THAT(names,
              IsSupersetOf({"direct", "second_of_three", "all_refuse", "disabled", "plan", "rules_20"}));
}

TEST(BenchDispatch, SaysWhatEachWayAddsToADirectCall) {
  const Outcome outcome =
      run_program({FLA_BENCH_DISPATCH, "--benchmark_min_time=0.0001", "--benchmark_repetitions=1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* line : {"second_of_three", "all_refuse", "disabled", "plan", "rules_20"}) {
    EXPECT_THAT(outcome.out.substr(outcome.out.find("added to a direct call")), HasSubstr(line));
  }
}

}  // namespace
}  // namespace fla::testing
