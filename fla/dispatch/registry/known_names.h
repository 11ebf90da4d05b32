#pragma once

#include "fla/dispatch/catalog/lock.h"
#include "fla/dispatch/settings/checks.h"

namespace fla::dispatch {

/// Every op and backend that a setting may name: those of the catalog, and those that plugins promise. Not
/// installed.
KnownNames known_names(Lock& lock);

}  // namespace fla::dispatch
