#include "fla/core/environment.h"

#include <sys/auxv.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "fla/core/errors.h"
#include "fla/core/privilege.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace fla {
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
    Variable{"FLA_CHECK_INDICES", "switch", "0",
             "read and check cu_seqlens and state indices that lie on a device before a call runs (waits for "
             "its stream, for debugging)"},
    Variable{"FLA_LOG_LEVEL", "trace, debug, info, warn, error, off", "warn", "what the logger `fla` writes"},
    Variable{"FLA_NVTX", "switch", "1 under a profiler",
             "mark the runs of kernels with NVTX ranges; a profiler sets NVTX_INJECTION64_PATH"},
    Variable{"FLA_NUM_THREADS", "1 to 1024", "OpenMP's choice", "CPU threads"},
};

/// The one list of those that a privileged process ignores. NVTX reads its own by itself, as soon as it is
/// initialised: see tracing().
constexpr std::array<std::string_view, 3> kNamesOfCodeAndFiles{"FLA_CONFIG", "FLA_PLUGIN_PATH",
                                                               "NVTX_INJECTION64_PATH"};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::span<const Variable> variables() { return kVariables; }

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
