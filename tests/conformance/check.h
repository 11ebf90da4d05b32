#pragma once

#include <string_view>

#include "tests/conformance/conformance.h"

namespace fla::conformance {

/// One check of an op's suite: fills in the report about the backend that it names.
struct Check {
  std::string_view name;
  void (*run)(Report& report, const Options& options);
};

}  // namespace fla::conformance
