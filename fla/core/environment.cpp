#include "fla/core/environment.h"

#include <sys/auxv.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "fla/core/environment_user.h"
#include "fla/core/errors.h"
#include "fla/core/privilege.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace fla {
namespace {

struct User {
  EnvironmentUser::Place place;
  std::span<const Variable> variables;
  EnvironmentUser::Read read;
};

/// Never freed: calls while the process ends still read it.
std::vector<User>& users() {
  static auto& all = *new std::vector<User>;
  return all;
}

/// The one list of those that a privileged process ignores. NVTX reads its own by itself, as soon as it is
/// initialised: see tracing().
constexpr std::array<std::string_view, 3> kNamesOfCodeAndFiles{"FLA_CONFIG", "FLA_PLUGIN_PATH",
                                                               "NVTX_INJECTION64_PATH"};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

EnvironmentUser::EnvironmentUser(Place place, std::span<const Variable> variables, Read read) {
  users().push_back({place, variables, read});
}

std::vector<EnvironmentUser::Apply> read_environment_users() {
  std::vector<EnvironmentUser::Apply> settings;
  for (const User& user : users()) {
    if (user.read != nullptr) settings.push_back(user.read());
  }
  return settings;
}

std::span<const Variable> variables() {
  static const auto& all = *new std::vector<Variable>([] {
    std::vector<User> sorted = users();
    std::ranges::stable_sort(sorted, {}, &User::place);
    std::vector<Variable> result;
    for (const User& user : sorted) result.insert(result.end(), user.variables.begin(), user.variables.end());
    return result;
  }());
  return all;
}

bool is_privileged() { return ::getauxval(AT_SECURE) != 0; }

bool names_code_or_file(std::string_view variable) {
  return std::ranges::find(kNamesOfCodeAndFiles, variable) != kNamesOfCodeAndFiles.end();
}

std::optional<std::string> environment(std::string_view name, bool privileged) {
  if (privileged && names_code_or_file(name)) return std::nullopt;
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<std::string> environment(std::string_view name) { return environment(name, is_privileged()); }

std::map<std::string, std::string> environment_beginning_with(std::string_view prefix, bool privileged) {
  std::map<std::string, std::string> found;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto equals = text.find('=');
    if (!text.starts_with(prefix) || equals == std::string_view::npos || equals + 1 == text.size()) continue;
    const std::string_view name = text.substr(0, equals);
    if (!privileged || !names_code_or_file(name)) found.emplace(name, text.substr(equals + 1));
  }
  return found;
}

bool parse_switch(std::string_view variable, std::string_view value) {
  constexpr std::array<std::string_view, 4> on{"1", "true", "on", "yes"}, off{"0", "false", "off", "no"};
  const auto matches = [value](std::string_view word) { return equal_ignoring_case(word, value); };
  if (std::ranges::any_of(on, matches)) return true;
  if (std::ranges::any_of(off, matches)) return false;
  throw ConfigError(std::string(variable) + ": expected one of 0 1 true false on off yes no, got '" +
                    std::string(value) + "'");
}

std::int64_t parse_number(std::string_view variable, std::string_view value, std::int64_t low,
                          std::int64_t high) {
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || stop != value.data() + value.size() || number < low || number > high) {
    throw ConfigError(std::string(variable) + ": expected a whole number from " + std::to_string(low) +
                      " to " + std::to_string(high) + ", got '" + std::string(value) + "'");
  }
  return number;
}

}  // namespace fla
