#pragma once

#include <span>

#include "tools/conformance/check.h"

namespace fla::conformance {

/// The checks of an op of a layer around its recurrence.
std::span<const Check> layer_checks();

}  // namespace fla::conformance
