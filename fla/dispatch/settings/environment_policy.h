#pragma once

#include <map>
#include <string>

#include "fla/dispatch/settings/policy.h"

/// The dispatch's environment variables; not installed.
namespace fla::dispatch {

/// The settings that the environment holds, toggles of backends left out. Throws ConfigError.
Policy policy_from(const std::map<std::string, std::string>& variables);

}  // namespace fla::dispatch
