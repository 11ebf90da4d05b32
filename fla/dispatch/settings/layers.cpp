#include "fla/dispatch/settings/layers.h"

#include <string>
#include <utility>

#include "fla/core/errors.h"

namespace fla::dispatch {

Policy merge(Policy lower, const Policy& upper) {
  if (upper.disable_dispatch) lower.disable_dispatch = upper.disable_dispatch;
  for (const auto& [name, on] : upper.enable) lower.enable[name] = on;
  for (const auto& [op, names] : upper.order) {
    lower.order[op] = names;
    lower.prefer.erase(op);  // who sets the order later has the last word on it
  }
  for (const auto& [op, names] : upper.prefer) lower.prefer[op] = names;
  if (upper.allow) lower.allow = upper.allow;
  if (upper.deny) lower.deny = upper.deny;
  for (const auto& [op, name] : upper.require) lower.require[op] = name;
  if (upper.on_failure) lower.on_failure = upper.on_failure;
  if (upper.batch_invariant) lower.batch_invariant = upper.batch_invariant;
  if (upper.check_verifiers) lower.check_verifiers = upper.check_verifiers;
  if (upper.breaker_threshold) lower.breaker_threshold = upper.breaker_threshold;
  if (upper.breaker_window_ms) lower.breaker_window_ms = upper.breaker_window_ms;
  if (upper.breaker_cool_down_ms) lower.breaker_cool_down_ms = upper.breaker_cool_down_ms;
  return lower;
}

Policy Layers::together(const ConfigRule* rule, const ScopedPolicy::Frame* scope) const {
  Policy policy = file != nullptr ? file->policy : Policy{};
  if (rule != nullptr) policy = merge(std::move(policy), rule->policy);
  policy = merge(merge(std::move(policy), environment), program);
  std::vector<const Policy*> scopes;
  for (; scope != nullptr; scope = scope->parent) scopes.push_back(&scope->policy);
  for (auto inner = scopes.rbegin(); inner != scopes.rend(); ++inner)
    policy = merge(std::move(policy), **inner);
  return policy;
}

std::vector<const ConfigRule*> Layers::rules_for(std::string_view op) const {
  std::vector<const ConfigRule*> found;
  if (file == nullptr) return found;
  for (const ConfigRule& rule : file->rules) {
    if (rule.op == op) found.push_back(&rule);
  }
  return found;
}

void check_sense(const Layers& layers, const ScopedPolicy::Frame* scope) {
  const auto check = [](const Policy& policy, const std::string& where) {
    if (!policy.disable_dispatch.value_or(false) || policy.require.empty()) return;
    const auto& [op, backend] = *policy.require.begin();
    throw ConfigError(where + "FLA_BACKEND_REQUIRE: " + op + "=" + backend +
                      " cannot be met while dispatch is disabled (FLA_DISABLE_BACKEND_DISPATCH)");
  };
  check(layers.together(nullptr, scope), "");
  if (layers.file == nullptr) return;
  for (const ConfigRule& rule : layers.file->rules) {
    check(layers.together(&rule, scope),
          "with the rule of " + layers.file->path + ":" + std::to_string(rule.line) + ", ");
  }
}

}  // namespace fla::dispatch
