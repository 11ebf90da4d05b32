#pragma once

#include <string>
#include <string_view>

#include "fla/core/export.h"
#include "fla/dispatch/settings/checks.h"
#include "fla/dispatch/settings/configuration.h"

/// The config file: TOML whose keys are the fields of Policy, and rules. Not installed;
/// fla/dispatch/config/config.h says what may stand in it.
namespace fla::dispatch {

/// Reads a text; `path` is for messages. Throws ConfigError "PATH:LINE: …" about the first line that is
/// wrong. Which ops and backends exist is not looked at.
FLA_API Configuration parse_configuration(std::string_view text, const std::string& path);

/// The same of a file, which messages call `shown`. Throws ConfigError, too, when there is none, or it is
/// larger than 1 MiB.
FLA_API Configuration read_configuration(const std::string& path, const std::string& shown);
inline Configuration read_configuration(const std::string& path) { return read_configuration(path, path); }

/// Throws ConfigError "PATH:LINE: …", with a suggestion, for a name that does not exist or a condition that
/// makes no sense for any function of its op.
FLA_API void check_names(const Configuration& configuration, const KnownNames& known);

}  // namespace fla::dispatch
