#include "fla/dispatch/registry/settings_in_force.h"

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "fla/core/environment_user.h"
#include "fla/core/errors.h"
#include "fla/core/logging.h"
#include "fla/core/privilege.h"
#include "fla/dispatch/call/trace.h"
#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/catalog/snapshot_store.h"
#include "fla/dispatch/config/config_file.h"
#include "fla/dispatch/config/config_watch.h"
#include "fla/dispatch/plugins/plugin_loader.h"
#include "fla/dispatch/registry/known_names.h"
#include "fla/dispatch/settings/checks.h"
#include "fla/dispatch/settings/environment_policy.h"
#include "fla/dispatch/settings/unknown_variables.h"

namespace fla::dispatch {
namespace {

std::string value_of(const std::map<std::string, std::string>& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

enum class Known : std::uint8_t { nothing, no, yes };
constinit std::atomic<Known> batch_invariance{Known::nothing};

}  // namespace

std::optional<bool> batch_invariant_outside_of_scopes() {
  const Known known = batch_invariance.load(std::memory_order_acquire);
  if (known == Known::nothing) return std::nullopt;
  return known == Known::yes;
}

SettingsInForce& settings_in_force(Lock&) {
  static SettingsInForce& settings = *new SettingsInForce;  // never freed: calls may outlive static objects
  return settings;
}

std::optional<bool> SettingsInForce::toggle(const BackendInfo& info) const {
  const auto variable = variables.find(std::string(info.env_var));
  if (variable == variables.end()) return std::nullopt;
  return parse_switch(variable->first, variable->second);
}

void SettingsInForce::apply(Layers next) {
  layers = std::move(next);
  const bool holds = layers.together(nullptr, nullptr).batch_invariant.value_or(false);
  batch_invariance.store(holds ? Known::yes : Known::no, std::memory_order_release);
}

void SettingsInForce::ensure_read(Lock& lock) {
  if (!is_read_) read(lock);
}

void SettingsInForce::read(Lock& lock) {
  auto now = environment_beginning_with("FLA_");
  Plugins::instance().find(value_of(now, "FLA_PLUGIN_PATH"));
  Layers next = layers;
  next.environment = policy_from(now);
  const std::string config_path = value_of(now, "FLA_CONFIG");
  next.file = prepare_configuration(config_path);
  const KnownNames known = known_names(lock);
  check_names(next.environment, SetBy::environment, known);
  if (next.file != nullptr) check_names(*next.file, known);
  check_sense(next, nullptr);
  if (next.file != nullptr) next.file->compile(known);
  const auto others = read_environment_users();
  const bool traced_now = tracing();
  const Catalog& all = catalog(lock);
  std::swap(variables, now);
  try {
    for (const auto& [name, op] : all.ops) {
      for (const auto& entry : op.entries) {
        if (const auto on = toggle(entry->info)) next.environment.enable[entry->name] = *on;
      }
    }
    for (const auto& [name, op] : all.ops) {
      for (const auto& entry : op.entries) {
        if (entry->backend != nullptr) entry->backend->configure();
      }
    }
    for (const auto& apply : others) apply();
  } catch (...) {
    std::swap(variables, now);
    throw;
  }
  apply(std::move(next));
  traced = traced_now;
  is_read_ = true;
  watch_configuration(config_path);
}

void SettingsInForce::tell_of_unknown_variables(Lock& lock) {
  std::vector<std::string> known;
  for (const Variable& variable : fla::variables()) known.emplace_back(variable.name);
  for (const auto& [name, op] : catalog(lock).ops) {
    for (const auto& entry : op.entries) {
      known.emplace_back(entry->info.env_var);
      if (entry->backend == nullptr) continue;
      for (const Variable& variable : entry->backend->variables()) known.emplace_back(variable.name);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [variable, hint] : hints_about(variables, known)) {
    if (told_variables_.insert(variable).second) lines.push_back("[FLA Config] " + hint);
  }
  if (lines.empty()) return;
  lock.unlock();
  for (const std::string& line : lines) log(spdlog::level::warn, line);
  lock.lock();
}

void SettingsInForce::check_loaded(Lock& lock) {
  try {
    const KnownNames known = known_names(lock);
    check_names(layers.environment, SetBy::environment, known);
    if (layers.file != nullptr) check_names(*layers.file, known);
  } catch (const ConfigError&) {
    is_read_ = false;  // every call says so until it is mended
    throw;
  }
}

bool set_configuration(std::shared_ptr<const Configuration> configuration, std::uint64_t checked) {
  Lock lock;
  SettingsInForce& settings = settings_in_force(lock);
  const Layers& layers = settings.layers;
  if (layers.file == nullptr || layers.file->file != configuration->file ||
      layers.file->reading > configuration->reading)
    return false;
  if (generation() != checked) check_names(*configuration, known_names(lock));
  Layers next = layers;
  next.file = std::move(configuration);
  check_sense(next, nullptr);
  settings.apply(std::move(next));
  snapshots(lock).make_stale(lock);
  return true;
}

std::shared_ptr<const Configuration> configuration_in_force() {
  Lock lock;
  SettingsInForce& settings = settings_in_force(lock);
  settings.ensure_read(lock);
  return settings.layers.file;
}

}  // namespace fla::dispatch
