#pragma once

#include <span>

#include "tools/conformance/check.h"

namespace fla::conformance {

/// Agreement with golden files and with the float64 reference, reproducible bits, memory, verifiers.
std::span<const Check> kda_checks();

}  // namespace fla::conformance
