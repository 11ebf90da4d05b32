#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "fla/core/export.h"

/// What the environment may say in a process that has more rights than whoever started it; not installed.
namespace fla {

/// Whether the process is one of those (setuid, setgid, file capabilities), as the kernel told it: AT_SECURE.
FLA_API bool is_privileged();

/// Whether the variable names code to load or a file to read. Such a process ignores it: its caller would
/// choose what runs or is read with rights that the caller does not have.
FLA_API bool names_code_or_file(std::string_view variable);

/// environment() in a process that is privileged or not.
FLA_API std::optional<std::string> environment(std::string_view name, bool privileged);

/// All variables that begin like that and are not empty, by their names.
FLA_API std::map<std::string, std::string> environment_beginning_with(std::string_view prefix,
                                                                      bool privileged = is_privileged());

}  // namespace fla
