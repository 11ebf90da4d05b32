#pragma once

#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// Inputs that are 2^-60 to 2^60 times as large as usual, as the op's scalings say and as far as the dtypes
/// go, have results that are as near to the reference as any.
void check_ranges(const SearchedOp& op, Report& report, const Options& options);

}  // namespace fla::conformance
