#pragma once

#include "fla/ops/recurrence/arguments.h"
#include "tools/conformance/conformance.h"

namespace fla::conformance {

/// Of the backward function of an op of the family: gradients agree with golden files and with the float64
/// reference, scale exactly with powers of two in those that come in, have the same bits twice, on any number
/// of threads and for a sequence alone, and go where the caller says and nowhere else.
template <RecurrenceArgs Args>
void check_gradients(Report& report, const Options& options);

}  // namespace fla::conformance
