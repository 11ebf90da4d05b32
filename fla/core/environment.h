#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fla/core/export.h"

namespace fla {

/// An environment variable that the library obeys. Backends' toggles come on top of these: see
/// BackendInfo::env_var.
struct Variable {
  std::string_view name;
  std::string_view values;
  std::string_view fallback;  ///< what holds when it is not set
  std::string_view meaning;
};

/// The library's own variables, in the order in which documents list them.
FLA_API std::span<const Variable> variables();

/// The variable's value as it is now; nothing when it is unset or empty, and for one that names code or a
/// file in a process that has more rights than whoever started it (setuid, capabilities).
FLA_API std::optional<std::string> environment(std::string_view name);

/// Reads 0/1/true/false/on/off/yes/no. Throws ConfigError, naming the variable and the value, for anything
/// else.
FLA_API bool parse_switch(std::string_view variable, std::string_view value);

/// Reads a whole number within [low, high]. Throws ConfigError as above.
FLA_API std::int64_t parse_number(std::string_view variable, std::string_view value, std::int64_t low,
                                  std::int64_t high);

}  // namespace fla
