#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fla/core/export.h"

namespace fla::dispatch {

/// How a message about a name that does not exist ends: "; did you mean 'cpu_simd'?" when one of the known
/// names is close to it, " (known: a, b)" otherwise, nothing when none is known.
FLA_API std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace fla::dispatch
