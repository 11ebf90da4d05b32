#pragma once

#include <vector>

#include "fla/ops/common/stages.h"

namespace fla::conformance {

/// What a stage should return, in float64 and row-major, as it is defined in fla/ops/common/stages.h.
std::vector<double> stage_reference(const L2NormArgs& args);
std::vector<double> stage_reference(const GateArgs& args);
std::vector<double> stage_reference(const SolveTrilArgs& args);

}  // namespace fla::conformance
