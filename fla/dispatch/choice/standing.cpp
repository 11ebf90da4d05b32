#include "fla/dispatch/choice/standing.h"

#include <algorithm>

namespace fla::dispatch {
namespace {

/// Whether a list of "backend" and "op.backend" names this backend of this op.
bool is_named(const std::vector<std::string>& list, const std::string& op, const std::string& backend) {
  return std::ranges::any_of(
      list, [&](const std::string& item) { return item == backend || item == op + "." + backend; });
}

}  // namespace

Standing standing_by_require(const Policy& policy, const std::string& op, std::string_view name) {
  const auto required = policy.require.find(op);
  if (required == policy.require.end() || required->second == name) return {};
  return {"denied", required->second + " is required for " + op};
}

Standing standing_by_policy(const Op& op, const Entry& entry, const Policy& policy,
                            const SettingsInForce& settings) {
  const auto toggle = policy.enable.find(entry.name);
  const std::string variable(entry.info.env_var);
  if (toggle == policy.enable.end() && !entry.info.default_enable)
    return {"disabled", "off unless " + variable + "=1"};
  if (toggle != policy.enable.end() && !toggle->second) {
    const auto set = settings.variables.find(variable);
    const bool by_variable = set != settings.variables.end();
    return {"disabled", by_variable ? variable + "=" + set->second : "turned off by the policy"};
  }
  if (policy.deny && is_named(*policy.deny, op.name, entry.name)) return {"denied", "named in the deny list"};
  if (policy.allow && !is_named(*policy.allow, op.name, entry.name))
    return {"denied", "not named in the allow list"};
  const auto order = policy.order.find(op.name);
  if (order != policy.order.end() && std::ranges::find(order->second, entry.name) == order->second.end()) {
    return {"denied", "not named in the order for " + op.name};
  }
  return standing_by_require(policy, op.name, entry.name);
}

Standing standing(const Op& op, const Entry& entry, std::string_view function, const Policy& policy,
                  const SettingsInForce& settings) {
  if (!entry.availability.available) return {"unavailable", entry.availability.reason};
  const Slot* slot = entry.slot(function);
  if (slot == nullptr || slot->run == nullptr) return {"not_implemented", "has no " + std::string(function)};
  return standing_by_policy(op, entry, policy, settings);
}

std::vector<std::shared_ptr<Entry>> asking_order(const Op& op, const Policy& policy) {
  std::vector<std::shared_ptr<Entry>> entries = op.entries;
  for (const auto* sequences : {&policy.order, &policy.prefer}) {  // the later one has the greater weight
    const auto sequence = sequences->find(op.name);
    if (sequence == sequences->end()) continue;
    const std::vector<std::string>& names = sequence->second;
    std::ranges::stable_sort(entries, {}, [&](const auto& entry) {
      return std::ranges::find(names, entry->name) - names.begin();
    });
  }
  return entries;
}

}  // namespace fla::dispatch
