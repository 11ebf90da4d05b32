#pragma once

#include <array>
#include <string_view>

#include "tests/conformance/conformance.h"

namespace fla::conformance {

struct KdaCheck {
  std::string_view name;
  void (*run)(Report& report, const Options& options);
};

/// Agreement with golden files and with the float64 reference, reproducible bits, memory, verifiers.
std::span<const KdaCheck> kda_checks();

}  // namespace fla::conformance
