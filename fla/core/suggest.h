#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fla/core/export.h"

namespace fla {

/// The known name that is so close to the word that it may be meant; null: none is.
const std::string* closest(std::string_view word, const std::vector<std::string>& known);

/// How a message about a name that does not exist ends: "; did you mean 'cpu_simd'?" when one of the known
/// names is close to it, " (known: a, b)" otherwise, nothing when none is known.
FLA_API std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace fla
