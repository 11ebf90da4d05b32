#pragma once

#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// A NaN or an infinity in an input at token t leaves the results before t, of other heads and of other
/// sequences what they are without it.
void check_causality(const SearchedOp& op, Report& report, const Options& options);

}  // namespace fla::conformance
