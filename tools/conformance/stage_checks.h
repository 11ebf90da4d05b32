#pragma once

#include <span>

#include "tools/conformance/check.h"

namespace fla::conformance {

/// What a backend of op common must show, for each stage that it has.
std::span<const Check> stage_checks();

}  // namespace fla::conformance
