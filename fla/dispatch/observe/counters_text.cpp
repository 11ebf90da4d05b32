#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "fla/core/json_line.h"
#include "fla/dispatch/observe/counters.h"

namespace fla {
namespace {

using nlohmann::ordered_json;

struct Label {
  std::string_view name;
  std::string_view value;
};

/// A label's value between its quotes.
std::string escaped(std::string_view value) {
  const auto text = ordered_json::parse(json_line(ordered_json(value))).get<std::string>();  // UTF-8 now
  std::string made;
  for (const char c : text) {
    if (c == '\\' || c == '"') made += '\\';
    if (c == '\n') {
      made += "\\n";
    } else {
      made += c;
    }
  }
  return made;
}

/// Writes one metric: what it is, then its samples.
class Metric {
 public:
  Metric(std::string& out, std::string_view name, std::string_view type, std::string_view help)
      : out_(out), name_(name) {
    out_.append("# HELP ").append(name).append(" ").append(help).append("\n");
    out_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
  }

  void sample(const BackendCounters& row, std::initializer_list<Label> more, std::uint64_t value) {
    out_.append(name_);
    char before = '{';
    const auto add = [&](const Label& label) {
      out_.append(1, before).append(label.name).append("=\"").append(escaped(label.value)).append("\"");
      before = ',';
    };
    for (const Label& label : {Label{"op", row.op}, {"function", row.function}, {"backend", row.backend}})
      add(label);
    for (const Label& label : more) add(label);
    out_.append("} ").append(std::to_string(value)).append("\n");
  }

 private:
  std::string& out_;
  std::string_view name_;
};

struct Counter {
  std::string_view name;
  std::string_view help;
  std::uint64_t BackendCounters::*value;
};
constexpr std::array kCounters{
    Counter{"fla_backend_taken_total", "Calls that went to the backend.", &BackendCounters::taken},
    Counter{"fla_backend_failed_total", "Calls that the backend took and threw out of.",
            &BackendCounters::failed},
    Counter{"fla_backend_fell_back_total", "Failed calls that went on to the next backend.",
            &BackendCounters::fell_back},
    Counter{"fla_backend_turned_away_total",
            "Calls that were skipped because the backend's breaker was open.", &BackendCounters::turned_away},
};

}  // namespace

std::string counters_json() {
  ordered_json rows = ordered_json::array();
  for (const BackendCounters& row : counters()) {
    ordered_json refused = ordered_json::array();
    for (const auto& [reason, place, count] : row.refused) {
      refused.push_back({{"reason", reason}, {"place", place}, {"count", count}});
    }
    rows.push_back({{"op", row.op},
                    {"function", row.function},
                    {"backend", row.backend},
                    {"taken", row.taken},
                    {"failed", row.failed},
                    {"fell_back", row.fell_back},
                    {"turned_away", row.turned_away},
                    {"breaker", row.breaker ? ordered_json(name_of(*row.breaker)) : ordered_json(nullptr)},
                    {"refused", std::move(refused)}});
  }
  return json_line(ordered_json{{"counters", std::move(rows)}});
}

std::string counters_prometheus() {
  const std::vector<BackendCounters> rows = counters();
  std::string text;
  for (const auto& [name, help, value] : kCounters) {
    Metric metric(text, name, "counter", help);
    for (const BackendCounters& row : rows) metric.sample(row, {}, row.*value);
  }
  Metric refused(text, "fla_backend_refused_total", "counter",
                 "Calls that the backend's verifier refused, by its reason and the place of it.");
  for (const BackendCounters& row : rows) {
    for (const auto& [reason, place, count] : row.refused) {
      refused.sample(row, {{"reason", reason}, {"place", place}}, count);
    }
  }
  Metric breaker(text, "fla_backend_breaker_state", "gauge",
                 "1 for the state that the backend's circuit breaker is in, 0 for the others.");
  for (const BackendCounters& row : rows) {
    if (!row.breaker) continue;
    for (const BreakerState state : {BreakerState::closed, BreakerState::open, BreakerState::half_open}) {
      breaker.sample(row, {{"state", name_of(state)}}, row.breaker == state ? 1 : 0);
    }
  }
  return text;
}

}  // namespace fla
