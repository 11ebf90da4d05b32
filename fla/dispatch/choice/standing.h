#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/registry/settings_in_force.h"
#include "fla/dispatch/settings/policy.h"

/// Who may be asked, and in which order; not installed.
namespace fla::dispatch {

/// Where a backend stands before its verifier is asked; no state means that it is a candidate.
struct Standing {
  std::string state;
  std::string reason;
};

/// Denied when another of the op is required.
Standing standing_by_require(const Policy& policy, const std::string& op, std::string_view name);

/// Disabled, denied or neither, whether the backend is there or not. `settings` knows who turned it off.
Standing standing_by_policy(const Op& op, const Entry& entry, const Policy& policy,
                            const SettingsInForce& settings);

Standing standing(const Op& op, const Entry& entry, std::string_view function, const Policy& policy,
                  const SettingsInForce& settings);

std::vector<std::shared_ptr<Entry>> asking_order(const Op& op, const Policy& policy);

}  // namespace fla::dispatch
