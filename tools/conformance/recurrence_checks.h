#pragma once

#include <span>

#include "fla/ops/recurrence/arguments.h"
#include "tools/conformance/check.h"

namespace fla::conformance {

/// Of an op of the family: agreement with golden files and with the float64 reference, reproducible bits,
/// memory, verifiers.
template <RecurrenceArgs Args>
std::span<const Check> recurrence_checks();

}  // namespace fla::conformance
