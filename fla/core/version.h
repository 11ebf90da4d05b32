#pragma once

#include <string_view>

namespace fla {

/// The version of these headers; the build holds it to the project's.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace fla
