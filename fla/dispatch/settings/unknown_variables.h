#pragma once

#include <map>
#include <string>
#include <vector>

#include "fla/core/export.h"

/// Variables that nobody reads; not installed.
namespace fla::dispatch {

/// What to say of each variable that is set, is not among the known ones and is close to one of them:
/// "FLA_CPU_SIMDD is set, which nothing that is loaded reads; did you mean 'FLA_CPU_SIMD'?" One that is close
/// to none is somebody else's: other programs have variables that begin with FLA_, too.
FLA_API std::map<std::string, std::string> hints_about(const std::map<std::string, std::string>& variables,
                                                       const std::vector<std::string>& known);

}  // namespace fla::dispatch
