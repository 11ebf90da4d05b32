#pragma once

#include <spdlog/logger.h>

#include <string_view>

#include "fla/core/export.h"

/// Logging for the library's own files; not installed. The logger is called `fla` and writes to standard
/// error; a program that registered a logger of that name with spdlog before gets the lines in its own.
/// Nothing global in spdlog (default logger, levels, patterns) is touched.
namespace fla {

/// Writes one line, if the level is on. Safe in a forked child.
FLA_API void log(spdlog::level::level_enum level, std::string_view line);

/// Whether a line of that level would be written: ask before putting together a costly one.
FLA_API bool log_enabled(spdlog::level::level_enum level);

}  // namespace fla
