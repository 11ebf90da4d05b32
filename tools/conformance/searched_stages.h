#pragma once

#include <array>

#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// The stages of op common, for the search: each is called with arguments of its own.
std::array<const SearchedOp*, 3> searched_stages();

}  // namespace fla::conformance
