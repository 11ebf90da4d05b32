#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/breaker_clock.h"
#include "tests/dispatch/counted.h"
#include "tests/dispatch/exposition.h"
#include "tests/dispatch/mix.h"

/// The counters as text: Prometheus' format and JSON say what the struct says.
namespace {

using fla_test::add;
using fla_test::BreakerClock;
using fla_test::counted;
using fla_test::MixArgs;
using fla_test::MixResult;
using fla_test::selected_backend;
using fla_test::exposition::Labels;
using fla_test::exposition::Metric;
using Metrics = std::map<std::string, Metric>;

Labels of(const std::string& backend, Labels more = {}) {
  more.merge(Labels{{"op", "mix"}, {"function", "mix_chunk"}, {"backend", backend}});
  return more;
}

Labels in_state(const std::string& backend, const std::string& state) {
  return of(backend, {{"state", state}});
}

/// The JSON row of one backend of mix_chunk.
nlohmann::json printed_row_of(const std::string& backend) {
  const nlohmann::json all = nlohmann::json::parse(fla::counters_json());
  for (const nlohmann::json& row : all.at("counters")) {
    if (row.at("op") == "mix" && row.at("function") == "mix_chunk" && row.at("backend") == backend)
      return row;
  }
  return nullptr;
}

TEST(Prometheus, DescribesEveryMetric) {
  const auto backend = add({.name = "told_described"});
  (void)selected_backend();
  const Metrics metrics = fla_test::exposition::read(fla::counters_prometheus());
  std::map<std::string, std::string> types;
  for (const auto& [name, metric] : metrics) {
    types[name] = metric.type;
    EXPECT_TRUE(metric.help.ends_with(".")) << name << ": " << metric.help;
  }
  EXPECT_EQ(types, (std::map<std::string, std::string>{{"fla_backend_taken_total", "counter"},
                                                       {"fla_backend_failed_total", "counter"},
                                                       {"fla_backend_fell_back_total", "counter"},
                                                       {"fla_backend_turned_away_total", "counter"},
                                                       {"fla_backend_refused_total", "counter"},
                                                       {"fla_backend_breaker_state", "gauge"}}));
}

TEST(Prometheus, CountsFromZeroForABackendThatWasNeverCalled) {
  const auto busy = add({.name = "told_busy", .priority = 1});
  const auto idle = add({.name = "told_idle", .priority = 2});
  for (int i = 0; i < 3; ++i) (void)selected_backend();
  const Metrics metrics = fla_test::exposition::read(fla::counters_prometheus());
  EXPECT_EQ(metrics.at("fla_backend_taken_total").samples.at(of("told_busy")), 3u);
  for (const char* name : {"taken", "failed", "fell_back", "turned_away"}) {
    const auto& samples = metrics.at(std::string("fla_backend_") + name + "_total").samples;
    ASSERT_TRUE(samples.contains(of("told_idle"))) << name;
    EXPECT_EQ(samples.at(of("told_idle")), 0u) << name;
  }
}

TEST(Prometheus, TellsFailuresFallbacksAndTheBreaker) {
  const BreakerClock clock;
  const auto failing = add({.name = "told_failing", .priority = 1, .run = [](const MixArgs&) -> MixResult {
                              throw fla::BackendError("no workspace", fla::BackendError::Wrote::nothing);
                            }});
  const auto original = counted("original").taken;
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback, .breaker_threshold = 2});
  for (int i = 0; i < 5; ++i) ASSERT_EQ(selected_backend(), "original");

  const Metrics metrics = fla_test::exposition::read(fla::counters_prometheus());
  const auto value = [&metrics](const char* name, const Labels& labels) {
    return metrics.at(std::string("fla_backend_") + name).samples.at(labels);
  };
  EXPECT_EQ(value("taken_total", of("told_failing")), 2u);
  EXPECT_EQ(value("failed_total", of("told_failing")), 2u);
  EXPECT_EQ(value("fell_back_total", of("told_failing")), 2u);
  EXPECT_EQ(value("turned_away_total", of("told_failing")), 3u);
  EXPECT_EQ(value("taken_total", of("original")), original + 5);
  EXPECT_EQ(value("breaker_state", in_state("told_failing", "open")), 1u);
  EXPECT_EQ(value("breaker_state", in_state("told_failing", "closed")), 0u);
  EXPECT_EQ(value("breaker_state", in_state("told_failing", "half_open")), 0u);
  EXPECT_FALSE(metrics.at("fla_backend_breaker_state").samples.contains(in_state("original", "closed")))
      << "the original kernel has no breaker";
}

TEST(Prometheus, TellsRefusalsByReasonAndPlace) {
  const auto picky = add({.name = "told_picky", .verify = [](const MixArgs& args) {
                            if (args.K == 1) return fla::refuse("requires \"even\" K\\2,\ngot {}", args.K);
                            if (args.K == 3) return fla::refuse("\xff is no UTF-8");
                            return fla::accept();
                          }});
  for (const std::int64_t K : {1, 1, 3, 2}) (void)selected_backend({.K = K});
  std::map<std::string, std::uint64_t> refused;
  const Metrics metrics = fla_test::exposition::read(fla::counters_prometheus());
  for (const auto& [labels, count] : metrics.at("fla_backend_refused_total").samples) {
    if (labels.at("backend") != "told_picky") continue;
    refused[labels.at("reason")] = count;
    EXPECT_THAT(labels.at("place"), testing::ContainsRegex("prometheus_test.cpp:[0-9]+$"));
  }
  EXPECT_EQ(refused, (std::map<std::string, std::uint64_t>{{"requires \"even\" K\\2,\ngot {}", 2},
                                                           {"\xef\xbf\xbd is no UTF-8", 1}}));
}

TEST(CountersJson, SaysWhatTheStructSays) {
  const BreakerClock clock;
  const auto failing =
      add({.name = "json_failing",
           .priority = 1,
           .verify =
               [](const MixArgs& args) {
                 return args.K == 1 ? fla::refuse("requires K > 1, got {}", args.K) : fla::accept();
               },
           .run = [](const MixArgs&) -> MixResult {
             throw fla::BackendError("no workspace", fla::BackendError::Wrote::nothing);
           }});
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback, .breaker_threshold = 1});
  for (const std::int64_t K : {1, 2, 2}) (void)selected_backend({.K = K});
  const nlohmann::json row = printed_row_of("json_failing");
  const std::string place = counted("json_failing").refused.at(0).place;
  EXPECT_EQ(row, nlohmann::json::parse(
                     R"({"op": "mix", "function": "mix_chunk", "backend": "json_failing", "taken": 1,
      "failed": 1, "fell_back": 1, "turned_away": 1, "breaker": "open",
      "refused": [{"reason": "requires K > 1, got {}", "place": ")" +
                     place + R"(", "count": 1}]})"));
  EXPECT_TRUE(printed_row_of("original").at("breaker").is_null());
  EXPECT_EQ(fla::counters_json().find('\n'), std::string::npos);
}

struct BadText {
  const char* name;
  const char* text;
  const char* message;
};
class StrictReader : public testing::TestWithParam<BadText> {};

TEST_P(StrictReader, Refuses) {
  EXPECT_EQ(
      fla_test::error_text<std::runtime_error>([] { (void)fla_test::exposition::read(GetParam().text); }),
      GetParam().message);
}

const BadText kBadTexts[] = {
    {"AnUnfinishedLine", "# HELP a_total x.", "the last line does not end: # HELP a_total x."},
    {"NoType", "# HELP a_total x.\n", "a metric without a TYPE: a_total"},
    {"ACounterOfAnotherName", "# HELP a x.\n# TYPE a counter\n", "a counter is called _total: a"},
    {"ABareQuote", "# HELP a x.\n# TYPE a gauge\na{b=\"c\"d\"} 1\n",
     "expected ',' at 'd\"} 1': a{b=\"c\"d\"} 1"},
    {"AStrangeEscape", "# HELP a x.\n# TYPE a gauge\na{b=\"\\t\"} 1\n",
     "an escape that does not exist: a{b=\"\\t\"} 1"},
    {"ASeriesTwice", "# HELP a x.\n# TYPE a gauge\na{b=\"c\"} 1\na{b=\"c\"} 2\n",
     "a series that stands twice: a{b=\"c\"} 2"},
    {"AStraySample", "# HELP a x.\n# TYPE a gauge\nb{} 1\n", "a sample outside its metric's group: b{} 1"},
    {"NoNumber", "# HELP a x.\n# TYPE a gauge\na{} one\n", "expected a number: a{} one"},
};
INSTANTIATE_TEST_SUITE_P(Prometheus, StrictReader, testing::ValuesIn(kBadTexts),
                         [](const auto& test) { return test.param.name; });

}  // namespace
