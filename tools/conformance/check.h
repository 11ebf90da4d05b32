#pragma once

#include <cstddef>
#include <string_view>

#include "tools/conformance/conformance.h"

namespace fla::conformance {

inline constexpr std::size_t kMostFailures = 10;  ///< that most checks tell

/// One check of an op's suite: fills in the report about the backend that it names.
struct Check {
  std::string_view name;
  void (*run)(Report& report, const Options& options);
};

}  // namespace fla::conformance
