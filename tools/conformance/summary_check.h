#pragma once

#include "fla/ops/recurrence/arguments.h"
#include "tools/conformance/conformance.h"

namespace fla::conformance {

/// Summaries make of a state what the tokens make of it, and of its gradient.
template <RecurrenceArgs Args>
void check_summaries(Report& report, const Options& options);

}  // namespace fla::conformance
