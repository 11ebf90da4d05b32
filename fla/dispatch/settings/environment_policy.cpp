#include "fla/dispatch/settings/environment_policy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/core/environment_user.h"
#include "fla/core/errors.h"
#include "fla/dispatch/settings/checks.h"

namespace fla::dispatch {
namespace {

constexpr std::array kVariables{
    Variable{"FLA_DISABLE_BACKEND_DISPATCH", "switch", "0", "bypass all dispatch: the original kernels only"},
    Variable{"FLA_BACKEND_ORDER", "op=backend|backend;op=…", "",
             "the backends of an op, in order; unlisted backends are not used"},
    Variable{"FLA_BACKEND_PREFER", "op=backend|backend;op=…", "",
             "these backends of an op are asked first, the others after them"},
    Variable{"FLA_BACKEND_ALLOW", "backend,op.backend,…", "",
             "only these backends, for every op or for that op alone"},
    Variable{"FLA_BACKEND_DENY", "backend,op.backend,…", "",
             "never these backends, for every op or for that op alone"},
    Variable{"FLA_BACKEND_REQUIRE", "op=backend;op=…", "",
             "that backend or an error that carries its reason"},
    Variable{"FLA_ON_FAILURE", "raise, fallback", "raise",
             "whether a backend that failed before it wrote anything is an error or passes the call on"},
    Variable{"FLA_BATCH_INVARIANT", "switch", "0",
             "only backends that give a sequence the same bits in any batch and when it is cut into calls"},
    Variable{"FLA_BREAKER_THRESHOLD", "0 to 1000000", "5",
             "so many failures within the window open a backend's circuit breaker; 0: none does"},
    Variable{"FLA_BREAKER_WINDOW_MS", "1 to 86400000", "10000", "the window, in milliseconds"},
    Variable{"FLA_BREAKER_COOL_DOWN_MS", "0 to 86400000", "30000",
             "milliseconds until one call tries a backend again whose breaker is open"},
    Variable{"FLA_CONFIG", "path", "", "a TOML file with these settings and rules for single calls; watched"},
    Variable{"FLA_PLUGIN_PATH", "path:path:…", "",
             "folders or files of plugins, beside fla/plugins at libfla"},
    Variable{"FLA_CHECK_VERIFIERS", "switch", "0",
             "ask every verifier twice and report one that is not pure (slow, for debugging)"},
    Variable{"FLA_NVTX", "switch", "1 under a profiler",
             "mark the runs of kernels with NVTX ranges; a profiler sets NVTX_INJECTION64_PATH"},
};
const EnvironmentUser user{EnvironmentUser::Place::dispatch, kVariables,
                           nullptr};  // what is in force reads them

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
  if (const auto value = value_of("FLA_BATCH_INVARIANT"))
    policy.batch_invariant = parse_switch("FLA_BATCH_INVARIANT", *value);
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

}  // namespace fla::dispatch
