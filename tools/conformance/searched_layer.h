#pragma once

#include <string_view>

#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// An op of a layer around its recurrence, for the search; null: there is none of that name.
const SearchedOp* searched_layer_op(std::string_view name);

}  // namespace fla::conformance
