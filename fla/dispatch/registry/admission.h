#pragma once

#include <string>
#include <string_view>

#include "fla/dispatch/catalog/lock.h"
#include "fla/dispatch/plugins/arrival.h"

namespace fla::dispatch {

/// Takes in all of what a plugin brings, or none of it; says why not, and keeps the reason with the op that
/// was called. Not installed.
std::string admit(Lock& lock, const Arrival& arrival, std::string_view called);

}  // namespace fla::dispatch
