#include "fla/dispatch/settings/checks.h"

#include <algorithm>

#include "fla/core/errors.h"

namespace fla::dispatch {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string known_list(std::string_view, const std::vector<std::string>& known) {
  return " (known: " + joined(known) + ")";
}

void check_range(const char* field, const std::optional<int>& value, int low, int high) {
  if (!value || (*value >= low && *value <= high)) return;
  throw ConfigError(std::string(field) + ": expected a number from " + std::to_string(low) + " to " +
                    std::to_string(high) + ", got " + std::to_string(*value));
}

}  // namespace

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::string unknown_name(const std::string& setting, const std::optional<std::string>& op,
                         const std::optional<std::string>& backend, const KnownNames& known,
                         std::string (*hint)(std::string_view, const std::vector<std::string>&)) {
  if (!op) {
    std::vector<std::string> names;
    bool complete = known.complete;
    for (const auto& [name, its] : known.ops) {
      complete = complete && its.complete;
      for (const std::string& each : its.backends) {
        if (!has(names, each)) names.push_back(each);
      }
    }
    if (!complete || has(names, *backend)) return "";
    return setting + ": no op has a backend '" + *backend + "'" + hint(*backend, names);
  }
  const auto found = known.ops.find(*op);
  if (found == known.ops.end()) {
    if (!known.complete) return "";
    std::vector<std::string> names;
    for (const auto& [name, its] : known.ops) names.push_back(name);
    return setting + ": there is no op '" + *op + "'" + hint(*op, names);
  }
  const KnownNames::Op& its = found->second;
  if (!backend || !its.complete || has(its.backends, *backend)) return "";
  return setting + ": op " + *op + " has no backend '" + *backend + "'" + hint(*backend, its.backends);
}

void check_names(const Policy& policy, SetBy by, const KnownNames& known) {
  const auto called = [by](const char* variable, const char* field) {
    return std::string(by == SetBy::environment ? variable : field);
  };
  const auto check = [&known](const std::string& setting, const std::optional<std::string>& op,
                              const std::optional<std::string>& backend) {
    const std::string problem = unknown_name(setting, op, backend, known, known_list);
    if (!problem.empty()) throw ConfigError(problem);
  };
  const auto check_list = [&](const std::string& setting, const std::vector<std::string>& list) {
    for (const std::string& item : list) {
      const auto dot = item.find('.');
      if (dot == std::string::npos) {
        check(setting, std::nullopt, item);
      } else {
        check(setting, item.substr(0, dot), item.substr(dot + 1));
      }
    }
  };
  const auto check_sequence = [&](const std::string& setting,
                                  const std::map<std::string, std::vector<std::string>>& sequence) {
    for (const auto& [op, backends] : sequence) {
      check(setting, op, std::nullopt);
      for (const std::string& backend : backends) {
        check(setting, op, backend);
        if (std::ranges::count(backends, backend) > 1) {
          throw ConfigError(setting + ": " + backend + " stands twice for op " + op);
        }
      }
    }
  };
  check_sequence(called("FLA_BACKEND_ORDER", "Policy::order"), policy.order);
  check_sequence(called("FLA_BACKEND_PREFER", "Policy::prefer"), policy.prefer);
  if (policy.allow) check_list(called("FLA_BACKEND_ALLOW", "Policy::allow"), *policy.allow);
  if (policy.deny) check_list(called("FLA_BACKEND_DENY", "Policy::deny"), *policy.deny);
  const std::string require = called("FLA_BACKEND_REQUIRE", "Policy::require");
  for (const auto& [op, backend] : policy.require) check(require, op, backend);
  for (const auto& [backend, on] : policy.enable) check("Policy::enable", std::nullopt, backend);
  check_range("Policy::breaker_threshold", policy.breaker_threshold, 0, kMostBreakerFailures);
  check_range("Policy::breaker_window_ms", policy.breaker_window_ms, 1, kMostBreakerMs);
  check_range("Policy::breaker_cool_down_ms", policy.breaker_cool_down_ms, 0, kMostBreakerMs);
}

}  // namespace fla::dispatch
