#pragma once

#include <string>

#include "fla/core/export.h"
#include "fla/ops/recurrence/arguments.h"

namespace fla {

/// What an op does with a token, as text: a line for each step, in the notation of the ops' headers.
FLA_API std::string formula_of(const RecurrenceOp& op);

}  // namespace fla
