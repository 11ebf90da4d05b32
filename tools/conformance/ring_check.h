#pragma once

#include "fla/ops/recurrence/arguments.h"
#include "tools/conformance/conformance.h"

namespace fla::conformance {

/// Steps over rings have the outputs of plain steps, whatever is accepted of them, and leave states alone
/// until a ring is folded.
template <RecurrenceArgs Args>
void check_rings(Report& report, const Options& options);

}  // namespace fla::conformance
