#pragma once

#include "fla/dispatch/settings/policy.h"

namespace fla::dispatch {

/// Throws ConfigError unless the policy could stand on top of what is in force on this thread. Not installed.
void check_scoped(const Policy& policy);

}  // namespace fla::dispatch
