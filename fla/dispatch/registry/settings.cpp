#include <algorithm>
#include <array>

#include "fla/core/environment_user.h"
#include "fla/core/errors.h"
#include "fla/core/logging.h"
#include "fla/core/privilege.h"
#include "fla/dispatch/call/trace.h"
#include "fla/dispatch/config/config_watch.h"
#include "fla/dispatch/registry/registry_state.h"
#include "fla/dispatch/settings/unknown_variables.h"

/// The registry's settings: where they come from, and what they may say.
namespace fla::dispatch {
namespace {

constexpr std::array kVariables{
    Variable{"FLA_DISABLE_BACKEND_DISPATCH", "switch", "0", "bypass all dispatch: the original kernels only"},
    Variable{"FLA_BACKEND_ORDER", "op=backend|backend;op=…", "",
             "the backends of an op, in order; unlisted backends are not used"},
    Variable{"FLA_BACKEND_PREFER", "op=backend|backend;op=…", "",
             "these backends of an op are asked first, the others after them"},
    Variable{"FLA_BACKEND_ALLOW", "backend,op.backend,…", "",
             "only these backends, for every op or for that op alone"},
    Variable{"FLA_BACKEND_DENY", "backend,op.backend,…", "",
             "never these backends, for every op or for that op alone"},
    Variable{"FLA_BACKEND_REQUIRE", "op=backend;op=…", "",
             "that backend or an error that carries its reason"},
    Variable{"FLA_ON_FAILURE", "raise, fallback", "raise",
             "whether a backend that failed before it wrote anything is an error or passes the call on"},
    Variable{"FLA_BREAKER_THRESHOLD", "0 to 1000000", "5",
             "so many failures within the window open a backend's circuit breaker; 0: none does"},
    Variable{"FLA_BREAKER_WINDOW_MS", "1 to 86400000", "10000", "the window, in milliseconds"},
    Variable{"FLA_BREAKER_COOL_DOWN_MS", "0 to 86400000", "30000",
             "milliseconds until one call tries a backend again whose breaker is open"},
    Variable{"FLA_CONFIG", "path", "", "a TOML file with these settings and rules for single calls; watched"},
    Variable{"FLA_PLUGIN_PATH", "path:path:…", "",
             "folders or files of plugins, beside fla/plugins at libfla"},
    Variable{"FLA_CHECK_VERIFIERS", "switch", "0",
             "ask every verifier twice and report one that is not pure (slow, for debugging)"},
    Variable{"FLA_NVTX", "switch", "1 under a profiler",
             "mark the runs of kernels with NVTX ranges; a profiler sets NVTX_INJECTION64_PATH"},
};
const EnvironmentUser user{EnvironmentUser::Place::dispatch, kVariables,
                           nullptr};  // read_environment reads them

std::string value_of(const std::map<std::string, std::string>& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

void check_range(const char* field, const std::optional<int>& value, int low, int high) {
  if (!value || (*value >= low && *value <= high)) return;
  throw ConfigError(std::string(field) + ": expected a number from " + std::to_string(low) + " to " +
                    std::to_string(high) + ", got " + std::to_string(*value));
}

}  // namespace

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

void check_names(const Policy& policy, SetBy by, const KnownNames& known) {
  const auto called = [by](const char* variable, const char* field) {
    return std::string(by == SetBy::environment ? variable : field);
  };
  const auto check_op = [&](const std::string& setting, const std::string& op) {
    if (known.ops.contains(op) || !known.complete) return;
    std::vector<std::string> names;
    for (const auto& [name, ignored] : known.ops) names.push_back(name);
    throw ConfigError(setting + ": there is no op '" + op + "' (known: " + joined(names) + ")");
  };
  const auto check_backend = [&](const std::string& setting, const std::string& op,
                                 const std::string& backend) {
    const auto found = known.ops.find(op);
    if (found == known.ops.end() || !found->second.complete) return;
    const std::vector<std::string>& names = found->second.backends;
    if (std::ranges::find(names, backend) != names.end()) return;
    throw ConfigError(setting + ": op " + op + " has no backend '" + backend + "' (known: " + joined(names) +
                      ")");
  };
  const auto check_anywhere = [&](const std::string& setting, const std::string& backend) {
    std::vector<std::string> names;
    bool complete = known.complete;
    for (const auto& [op, its] : known.ops) {
      complete = complete && its.complete;
      for (const std::string& name : its.backends) {
        if (name == backend) return;
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
    if (!complete) return;
    throw ConfigError(setting + ": no op has a backend '" + backend + "' (known: " + joined(names) + ")");
  };
  const auto check_list = [&](const std::string& setting, const std::vector<std::string>& list) {
    for (const std::string& item : list) {
      const auto dot = item.find('.');
      if (dot == std::string::npos) {
        check_anywhere(setting, item);
      } else {
        check_op(setting, item.substr(0, dot));
        check_backend(setting, item.substr(0, dot), item.substr(dot + 1));
      }
    }
  };
  const auto check_sequence = [&](const std::string& setting,
                                  const std::map<std::string, std::vector<std::string>>& sequence) {
    for (const auto& [op, backends] : sequence) {
      check_op(setting, op);
      for (const std::string& backend : backends) {
        check_backend(setting, op, backend);
        if (std::ranges::count(backends, backend) > 1) {
          throw ConfigError(setting + ": " + backend + " stands twice for op " + op);
        }
      }
    }
  };
  check_sequence(called("FLA_BACKEND_ORDER", "Policy::order"), policy.order);
  check_sequence(called("FLA_BACKEND_PREFER", "Policy::prefer"), policy.prefer);
  if (policy.allow) check_list(called("FLA_BACKEND_ALLOW", "Policy::allow"), *policy.allow);
  if (policy.deny) check_list(called("FLA_BACKEND_DENY", "Policy::deny"), *policy.deny);
  const std::string require = called("FLA_BACKEND_REQUIRE", "Policy::require");
  for (const auto& [op, backend] : policy.require) {
    check_op(require, op);
    check_backend(require, op, backend);
  }
  for (const auto& [backend, on] : policy.enable) check_anywhere("Policy::enable", backend);
  check_range("Policy::breaker_threshold", policy.breaker_threshold, 0, kMostBreakerFailures);
  check_range("Policy::breaker_window_ms", policy.breaker_window_ms, 1, kMostBreakerMs);
  check_range("Policy::breaker_cool_down_ms", policy.breaker_cool_down_ms, 0, kMostBreakerMs);
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

std::optional<bool> Registry::toggle(const BackendInfo& info) const {
  const auto variable = variables_.find(std::string(info.env_var));
  if (variable == variables_.end()) return std::nullopt;
  return parse_switch(variable->first, variable->second);
}

KnownNames Registry::names() const {
  const Plugins& plugins = Plugins::instance();
  KnownNames known;
  const auto add = [](std::vector<std::string>& names, std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  for (const auto& [name, op] : ops_) {
    KnownNames::Op& its = known.ops[name];
    its.complete = !plugins.may_bring_backends(name);
    for (const auto& [recipe, origin] : recipes_) {
      if (recipe.op == name) add(its.backends, recipe.name);
    }
    for (const auto& entry : op.entries) add(its.backends, entry->name);
    for (const FunctionBase* function : op.functions) its.tables.push_back(function->description().arguments);
  }
  for (const std::string& backend : plugins.promised_backends()) {
    const auto dot = backend.find('.');
    if (const auto op = known.ops.find(backend.substr(0, dot)); op != known.ops.end())
      add(op->second.backends, backend.substr(dot + 1));
  }
  known.complete = !plugins.may_bring_ops();
  return known;
}

KnownNames Registry::known_names() {
  const Lock lock(*this);
  return names();
}

void Registry::ensure_environment() {
  if (!environment_read_) read_environment();
}

void Registry::read_environment() {
  auto variables = environment_beginning_with("FLA_");
  Plugins::instance().find(value_of(variables, "FLA_PLUGIN_PATH"));
  Layers next = layers_;
  next.environment = policy_from(variables);
  const std::string config_path = value_of(variables, "FLA_CONFIG");
  next.file = prepare_configuration(config_path);
  const KnownNames known = names();
  check_names(next.environment, SetBy::environment, known);
  if (next.file != nullptr) check_names(*next.file, known);
  check_sense(next, nullptr);
  if (next.file != nullptr) next.file->compile(known);
  const auto others = read_environment_users();
  const bool traced = tracing();
  std::swap(variables_, variables);
  try {
    for (const auto& [name, op] : ops_) {
      for (const auto& entry : op.entries) {
        if (const auto on = toggle(entry->info)) next.environment.enable[entry->name] = *on;
      }
    }
    for (const auto& [name, op] : ops_) {
      for (const auto& entry : op.entries) {
        if (entry->backend != nullptr) entry->backend->configure();
      }
    }
    for (const auto& apply : others) apply();
  } catch (...) {
    std::swap(variables_, variables);
    throw;
  }
  layers_ = std::move(next);
  traced_ = traced;
  environment_read_ = true;
  watch_configuration(config_path);
}

void Registry::reload_environment() {
  Lock lock(*this);
  read_environment();
  make_stale();
  const bool is_loaded = std::ranges::any_of(ops_, [](const auto& named) { return named.second.loaded; });
  if (is_loaded) tell_of_unknown_variables(lock);
}

void Registry::tell_of_unknown_variables(Lock& lock) {
  std::vector<std::string> known;
  for (const Variable& variable : fla::variables()) known.emplace_back(variable.name);
  for (const auto& [name, op] : ops_) {
    for (const auto& entry : op.entries) {
      known.emplace_back(entry->info.env_var);
      if (entry->backend == nullptr) continue;
      for (const Variable& variable : entry->backend->variables()) known.emplace_back(variable.name);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [variable, hint] : hints_about(variables_, known)) {
    if (told_variables_.insert(variable).second) lines.push_back("[FLA Config] " + hint);
  }
  if (lines.empty()) return;
  lock.unlock();
  for (const std::string& line : lines) log(spdlog::level::warn, line);
  lock.lock();
}

/// Names that could not be checked before plugins were loaded.
void Registry::check_loaded() {
  try {
    const KnownNames known = names();
    check_names(layers_.environment, SetBy::environment, known);
    if (layers_.file != nullptr) check_names(*layers_.file, known);
  } catch (const ConfigError&) {
    environment_read_ = false;  // every call says so until it is mended
    throw;
  }
}

/// Loads what the policy names, so that a name that does not exist is told at once.
void Registry::load_named(Lock& lock, const Policy& policy) {
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
    for (const auto& [op, ignored] : ops_) named.push_back(op);
  }
  for (const std::string& op : named) {
    if (Plugins::instance().may_serve(op)) load(lock, op);
  }
}

void Registry::set_policy(const Policy& policy) {
  Lock lock(*this);
  ensure_environment();
  load_named(lock, policy);
  check_names(policy, SetBy::program, names());
  Layers next = layers_;
  next.program = policy;
  check_sense(next, nullptr);
  layers_ = std::move(next);
  make_stale();
}

bool Registry::set_configuration(std::shared_ptr<const Configuration> configuration, std::uint64_t checked) {
  const Lock lock(*this);
  if (layers_.file == nullptr || layers_.file->file != configuration->file ||
      layers_.file->reading > configuration->reading)
    return false;
  if (generation() != checked) check_names(*configuration, names());
  Layers next = layers_;
  next.file = std::move(configuration);
  check_sense(next, nullptr);
  layers_ = std::move(next);
  make_stale();
  return true;
}

std::shared_ptr<const Configuration> Registry::configuration() {
  const Lock lock(*this);
  ensure_environment();
  return layers_.file;
}

void Registry::check_scoped(const Policy& policy) {
  Lock lock(*this);
  ensure_environment();
  load_named(lock, policy);
  check_names(policy, SetBy::program, names());
  ScopedPolicy::Frame inner{thread_state.scope, policy, {}};
  check_sense(layers_, &inner);
}

Policy Registry::policy() {
  const Lock lock(*this);
  ensure_environment();
  return layers_.together(nullptr, nullptr);
}

}  // namespace fla::dispatch
