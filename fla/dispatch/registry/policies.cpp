#include "fla/dispatch/registry/policies.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/call/thread_state.h"
#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/catalog/snapshot_store.h"
#include "fla/dispatch/plugins/plugin_loader.h"
#include "fla/dispatch/registry/known_names.h"
#include "fla/dispatch/registry/loader.h"
#include "fla/dispatch/registry/settings_in_force.h"
#include "fla/dispatch/settings/checks.h"

/// What a program sets.
namespace fla {
namespace dispatch {
namespace {

/// Loads what the policy names, so that a name that does not exist is told at once.
void load_named(Lock& lock, const Policy& policy) {
  std::vector<std::string> named;
  for (const auto& [op, ignored] : policy.order) named.push_back(op);
  for (const auto& [op, ignored] : policy.prefer) named.push_back(op);
  for (const auto& [op, ignored] : policy.require) named.push_back(op);
  bool anywhere = !policy.enable.empty();
  for (const auto* list : {&policy.allow, &policy.deny}) {
    if (!*list) continue;
    for (const std::string& item : **list) {
      if (const auto dot = item.find('.'); dot != std::string::npos) {
        named.push_back(item.substr(0, dot));
      } else {
        anywhere = true;
      }
    }
  }
  if (anywhere) {
    for (const auto& [op, ignored] : catalog(lock).ops) named.push_back(op);
  }
  for (const std::string& op : named) {
    if (Plugins::instance().may_serve(op)) load(lock, op);
  }
}

/// The settings in force, for a policy whose names were found.
SettingsInForce& settings_for(Lock& lock, const Policy& policy) {
  SettingsInForce& settings = settings_in_force(lock);
  settings.ensure_read(lock);
  load_named(lock, policy);
  check_names(policy, SetBy::program, known_names(lock));
  return settings;
}

}  // namespace

void check_scoped(const Policy& policy) {
  Lock lock;
  const ScopedPolicy::Frame inner{thread_state.scope, policy};
  check_sense(settings_for(lock, policy).layers, &inner);
}

}  // namespace dispatch

void set_policy(const Policy& policy) {
  dispatch::Lock lock;
  dispatch::SettingsInForce& settings = dispatch::settings_for(lock, policy);
  dispatch::Layers next = settings.layers;
  next.program = policy;
  check_sense(next, nullptr);
  settings.apply(std::move(next));
  dispatch::snapshots(lock).make_stale(lock);
}

Policy policy_for(std::string_view op, std::string_view backend) {
  Policy policy;
  if (backend.empty()) return policy;
  policy.disable_dispatch = backend == kOriginalKernel.name;
  if (!*policy.disable_dispatch) policy.require[std::string(op)] = std::string(backend);
  return policy;
}

Policy current_policy() {
  dispatch::Lock lock;
  dispatch::SettingsInForce& settings = dispatch::settings_in_force(lock);
  settings.ensure_read(lock);
  return settings.layers.together(nullptr, nullptr);
}

bool batch_invariant() {
  for (const auto* scope = dispatch::thread_state.scope; scope != nullptr; scope = scope->parent) {
    if (scope->policy.batch_invariant) return *scope->policy.batch_invariant;
  }
  if (const auto known = dispatch::batch_invariant_outside_of_scopes()) return *known;
  dispatch::Lock lock;
  dispatch::settings_in_force(lock).ensure_read(lock);
  return dispatch::batch_invariant_outside_of_scopes().value_or(false);
}

void reload_environment() {
  dispatch::Lock lock;
  dispatch::SettingsInForce& settings = dispatch::settings_in_force(lock);
  settings.read(lock);
  dispatch::snapshots(lock).make_stale(lock);
  const bool is_loaded =
      std::ranges::any_of(dispatch::catalog(lock).ops, [](const auto& named) { return named.second.loaded; });
  if (is_loaded) settings.tell_of_unknown_variables(lock);
}

}  // namespace fla
