#pragma once

#include <vector>

#include "tools/cases/random_case.h"

namespace fla::conformance {

/// Calls of every kind of data and dtype, with sizes, packings and options that take turns: what a backend is
/// compared on. All are valid; a backend may refuse some.
template <RecurrenceArgs Args>
std::vector<cases::CaseSpec<Args>> specs_of();

/// Fewer and smaller ones, for checks that run each of them several times.
template <RecurrenceArgs Args>
std::vector<cases::CaseSpec<Args>> few_specs_of();

}  // namespace fla::conformance
