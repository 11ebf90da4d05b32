#include <algorithm>

#include "fla/core/environment_user.h"
#include "fla/core/errors.h"
#include "fla/core/logging.h"
#include "fla/core/privilege.h"
#include "fla/dispatch/call/trace.h"
#include "fla/dispatch/config/config_file.h"
#include "fla/dispatch/config/config_watch.h"
#include "fla/dispatch/registry/registry_state.h"
#include "fla/dispatch/settings/environment_policy.h"
#include "fla/dispatch/settings/unknown_variables.h"

/// The settings that are in force.
namespace fla {
namespace dispatch {
namespace {

std::string value_of(const std::map<std::string, std::string>& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

}  // namespace

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
  const ScopedPolicy::Frame inner{thread_state.scope, policy};
  check_sense(layers_, &inner);
}

Policy Registry::policy() {
  const Lock lock(*this);
  ensure_environment();
  return layers_.together(nullptr, nullptr);
}

}  // namespace dispatch

void set_policy(const Policy& policy) { dispatch::Registry::instance().set_policy(policy); }

Policy current_policy() { return dispatch::Registry::instance().policy(); }

void reload_environment() { dispatch::Registry::instance().reload_environment(); }

}  // namespace fla
