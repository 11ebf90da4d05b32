#pragma once

#include <vector>

#include "tools/cases/random_case.h"

namespace fla::conformance {

/// Calls of every kind of data and dtype, with sizes, packings and options that take turns: what a backend is
/// compared on. All are valid; a backend may refuse some.
std::vector<cases::KdaSpec> kda_specs();

/// Fewer and smaller ones, for checks that run each of them several times.
std::vector<cases::KdaSpec> few_kda_specs();

}  // namespace fla::conformance
