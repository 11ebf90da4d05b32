#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/observe/explain.h"

namespace fla::command {

inline constexpr std::string_view kOriginal = kOriginalKernel.name;

/// The backends that take a call, in the order in which they are asked: those that would get it if the ones
/// before them were not there.
inline std::vector<std::string> backends_that_take(const Explanation& explanation) {
  std::vector<std::string> names;
  if (!explanation.dispatch_enabled) return names;
  for (const Explanation::Row& row : explanation.rows) {
    if (row.state == "selected" || row.state == "accepted") names.push_back(row.name);
  }
  return names;
}

}  // namespace fla::command
