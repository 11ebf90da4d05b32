#pragma once

#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// kda, for the search.
const SearchedOp& searched_kda();

}  // namespace fla::conformance
