#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"

namespace fla::command {

inline constexpr std::string_view kOriginal = kOriginalKernel.name;

/// The policy under which calls of `op` go to that backend and no other, or, for "original", to the original
/// kernel. An empty name leaves the choice to the dispatch.
inline Policy policy_for(std::string_view op, std::string_view backend) {
  Policy policy;
  if (backend.empty()) return policy;
  policy.disable_dispatch = backend == kOriginal;
  if (backend != kOriginal) policy.require[std::string(op)] = std::string(backend);
  return policy;
}

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
