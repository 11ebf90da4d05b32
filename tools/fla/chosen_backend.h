#pragma once

#include <string>
#include <string_view>

#include "fla/dispatch/policy.h"

namespace fla::command {

inline constexpr std::string_view kOriginal = "original";

/// The policy under which calls of `op` go to that backend and no other, or, for "original", to the original
/// kernel. An empty name leaves the choice to the dispatch.
inline Policy policy_for(std::string_view op, std::string_view backend) {
  Policy policy;
  if (backend.empty()) return policy;
  policy.disable_dispatch = backend == kOriginal;
  if (backend != kOriginal) policy.require[std::string(op)] = std::string(backend);
  return policy;
}

}  // namespace fla::command
