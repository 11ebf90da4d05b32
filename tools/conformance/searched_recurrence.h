#pragma once

#include "fla/ops/recurrence/arguments.h"
#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// An op of the family, for the search.
template <RecurrenceArgs Args>
const SearchedOp& searched_recurrence();

}  // namespace fla::conformance
