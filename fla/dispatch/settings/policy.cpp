#include "fla/dispatch/settings/policy.h"

#include <algorithm>

#include "fla/core/environment.h"
#include "fla/core/errors.h"
#include "fla/dispatch/registry/registry_state.h"

namespace fla {
namespace dispatch {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// The parts between separators, trimmed. An empty part is an error, except after a last separator.
std::vector<std::string> parts(std::string_view variable, std::string_view value, std::string_view text,
                               char separator) {
  std::vector<std::string> found;
  for (std::string_view rest = text; !trimmed(rest).empty();) {
    const auto end = rest.find(separator);
    const std::string_view part = trimmed(rest.substr(0, end));
    if (part.empty()) {
      throw ConfigError(std::string(variable) + ": expected a name before '" + separator + "' in '" +
                        std::string(value) + "'");
    }
    found.emplace_back(part);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return found;
}

/// "op=text;op=text" as pairs.
std::vector<std::pair<std::string, std::string>> assignments(std::string_view variable,
                                                             std::string_view value) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string& part : parts(variable, value, value, ';')) {
    const auto equals = part.find('=');
    const std::string op(trimmed(part.substr(0, equals)));
    const std::string text(equals == std::string::npos ? "" : trimmed(part.substr(equals + 1)));
    if (op.empty() || text.empty()) {
      throw ConfigError(std::string(variable) + ": expected op=backend, got '" + part + "'");
    }
    if (std::ranges::any_of(found, [&](const auto& pair) { return pair.first == op; })) {
      throw ConfigError(std::string(variable) + ": op " + op + " stands twice in '" + std::string(value) +
                        "'");
    }
    found.emplace_back(op, text);
  }
  return found;
}

}  // namespace

BreakerSettings breaker_settings(const Policy& policy) {
  BreakerSettings settings;
  settings.threshold = policy.breaker_threshold.value_or(settings.threshold);
  settings.window_ms = policy.breaker_window_ms.value_or(settings.window_ms);
  settings.cool_down_ms = policy.breaker_cool_down_ms.value_or(settings.cool_down_ms);
  return settings;
}

Policy policy_from(const std::map<std::string, std::string>& variables) {
  const auto value_of = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  Policy policy;
  if (const auto value = value_of("FLA_DISABLE_BACKEND_DISPATCH")) {
    policy.disable_dispatch = parse_switch("FLA_DISABLE_BACKEND_DISPATCH", *value);
  }
  const auto lists = [&](const char* name) {
    std::map<std::string, std::vector<std::string>> found;
    const auto value = value_of(name);
    if (!value) return found;
    for (const auto& [op, names] : assignments(name, *value)) found[op] = parts(name, *value, names, '|');
    return found;
  };
  policy.order = lists("FLA_BACKEND_ORDER");
  policy.prefer = lists("FLA_BACKEND_PREFER");
  if (const auto value = value_of("FLA_BACKEND_ALLOW"))
    policy.allow = parts("FLA_BACKEND_ALLOW", *value, *value, ',');
  if (const auto value = value_of("FLA_BACKEND_DENY"))
    policy.deny = parts("FLA_BACKEND_DENY", *value, *value, ',');
  if (const auto value = value_of("FLA_BACKEND_REQUIRE")) {
    for (const auto& [op, name] : assignments("FLA_BACKEND_REQUIRE", *value)) policy.require[op] = name;
  }
  if (const auto value = value_of("FLA_ON_FAILURE")) {
    if (*value != "raise" && *value != "fallback") {
      throw ConfigError("FLA_ON_FAILURE: expected raise or fallback, got '" + *value + "'");
    }
    policy.on_failure = *value == "raise" ? OnFailure::raise : OnFailure::fallback;
  }
  if (const auto value = value_of("FLA_CHECK_VERIFIERS"))
    policy.check_verifiers = parse_switch("FLA_CHECK_VERIFIERS", *value);
  const auto number = [&](const char* name, std::int64_t low, std::int64_t high) -> std::optional<int> {
    const auto value = value_of(name);
    if (!value) return std::nullopt;
    return static_cast<int>(parse_number(name, *value, low, high));
  };
  policy.breaker_threshold = number("FLA_BREAKER_THRESHOLD", 0, kMostBreakerFailures);
  policy.breaker_window_ms = number("FLA_BREAKER_WINDOW_MS", 1, kMostBreakerMs);
  policy.breaker_cool_down_ms = number("FLA_BREAKER_COOL_DOWN_MS", 0, kMostBreakerMs);
  return policy;
}

Policy merge(Policy lower, const Policy& upper) {
  if (upper.disable_dispatch) lower.disable_dispatch = upper.disable_dispatch;
  for (const auto& [name, on] : upper.enable) lower.enable[name] = on;
  for (const auto& [op, names] : upper.order) {
    lower.order[op] = names;
    lower.prefer.erase(op);  // who sets the order later has the last word on it
  }
  for (const auto& [op, names] : upper.prefer) lower.prefer[op] = names;
  if (upper.allow) lower.allow = upper.allow;
  if (upper.deny) lower.deny = upper.deny;
  for (const auto& [op, name] : upper.require) lower.require[op] = name;
  if (upper.on_failure) lower.on_failure = upper.on_failure;
  if (upper.check_verifiers) lower.check_verifiers = upper.check_verifiers;
  if (upper.breaker_threshold) lower.breaker_threshold = upper.breaker_threshold;
  if (upper.breaker_window_ms) lower.breaker_window_ms = upper.breaker_window_ms;
  if (upper.breaker_cool_down_ms) lower.breaker_cool_down_ms = upper.breaker_cool_down_ms;
  return lower;
}

}  // namespace dispatch

void set_policy(const Policy& policy) { dispatch::Registry::instance().set_policy(policy); }

Policy current_policy() { return dispatch::Registry::instance().policy(); }

void reload_environment() { dispatch::Registry::instance().reload_environment(); }

}  // namespace fla
