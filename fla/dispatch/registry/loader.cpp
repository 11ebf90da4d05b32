#include "fla/dispatch/registry/loader.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/logging.h"
#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/catalog/snapshot_store.h"
#include "fla/dispatch/lock_order.h"
#include "fla/dispatch/plugins/plugin_loader.h"
#include "fla/dispatch/registry/admission.h"
#include "fla/dispatch/registry/loading.h"
#include "fla/dispatch/registry/settings_in_force.h"
#include "fla/dispatch/settings/checks.h"

namespace fla::dispatch {
namespace {

constinit Loading loading;
const bool guarded = (guard_against_fork(LockOrder::loading, loading), true);

std::shared_ptr<Entry> make_entry(const Recipe& recipe, const std::string& origin) {
  auto entry = std::make_shared<Entry>();
  entry->name = recipe.name;
  entry->origin = origin;
  entry->info.name = entry->name;
  try {
    entry->backend = recipe.make();
    entry->slots = recipe.slots();
    entry->info = entry->backend->info();
    if (entry->info.name != recipe.name) {
      throw Error("it is registered as " + entry->name + " but calls itself " +
                  std::string(entry->info.name));
    }
    entry->backend->configure();
    entry->availability = entry->backend->is_available();
  } catch (const ConfigError&) {
    throw;  // a wrong setting is the user's to mend; the next call loads again
  } catch (const std::exception& error) {
    entry->availability = Availability::no(std::string("did not load: ") + error.what());
    log(spdlog::level::warn,
        "[FLA Backend] " + std::string(recipe.op) + ": " + entry->name + " " + entry->availability.reason);
  }
  return entry;
}

void load_recipes(Lock& lock, std::string_view name) {
  Catalog& all = catalog(lock);
  const auto found = all.ops.find(name);
  if (found == all.ops.end() || found->second.loaded) return;
  Op& op = found->second;
  const std::vector<KnownRecipe> waiting = all.waiting(op);
  lock.unlock();
  std::vector<std::shared_ptr<Entry>> made;
  made.reserve(waiting.size());
  for (const auto& [recipe, origin] : waiting) made.push_back(make_entry(recipe, origin));
  lock.lock();
  SettingsInForce& settings = settings_in_force(lock);
  std::map<std::string, bool> toggles;
  try {
    for (const auto& entry : made) {
      if (const auto on = settings.toggle(entry->info)) toggles[entry->name] = *on;
    }
  } catch (...) {
    for (auto& entry : made) lock.drop(std::move(entry));
    throw;
  }
  for (const auto& [backend, on] : toggles) settings.layers.environment.enable[backend] = on;
  for (auto& entry : made) all.add(lock, op, std::move(entry));
  op.loaded = op.wanted = true;
  if (!waiting.empty()) snapshots(lock).make_stale(lock);  // their own code may have made calls without them
}

void load_plugins(std::string_view op) {
  for (const Arrival& arrival : Plugins::instance().load_for(op)) {
    std::string refused;
    try {
      Lock lock;
      refused = admit(lock, arrival, op);
    } catch (const std::exception& error) {
      refused = std::string("it could not be taken in: ") + error.what();
    }
    Plugins::instance().settle(arrival.path, refused);
  }
}

}  // namespace

bool is_loaded(Lock& lock, std::string_view op) {
  const Catalog& all = catalog(lock);
  const auto found = all.ops.find(op);
  return (found == all.ops.end() || found->second.loaded) && !Plugins::instance().may_serve(op);
}

void load(Lock& lock, std::string_view op) {
  if (is_loaded(lock, op) || loading.within()) return;
  const bool may_come = Plugins::instance().may_serve(op);
  lock.unlock();
  {
    const Loading::Turn turn(loading);
    if (may_come) load_plugins(op);
    lock.lock();
    load_recipes(lock, op);
  }
  SettingsInForce& settings = settings_in_force(lock);
  if (may_come) settings.check_loaded(lock);
  settings.tell_of_unknown_variables(lock);
}

void load_known(Lock& lock) {
  std::vector<std::string> waiting;
  for (const auto& [name, op] : catalog(lock).ops) {
    if (!op.loaded) waiting.push_back(name);
  }
  if (waiting.empty() || loading.within()) return;
  lock.unlock();
  const Loading::Turn turn(loading);
  lock.lock();
  for (const std::string& name : waiting) load_recipes(lock, name);
}

void load_again(std::string_view op) {
  Lock lock;
  const Catalog& all = catalog(lock);
  const auto found = all.ops.find(op);
  if (found == all.ops.end() || !found->second.wanted) return;
  load(lock, op);  // waits for whoever is at it
}

const FunctionBase& find_function(std::string_view op, std::string_view name) {
  Lock lock;
  Catalog& all = catalog(lock);
  if (const FunctionBase* found = all.find(op, name)) return *found;
  settings_in_force(lock).ensure_read(lock);
  load(lock, op);
  if (const FunctionBase* found = all.find(op, name)) return *found;
  std::vector<std::string> known;
  for (const FunctionBase* function : all.op_named(op).functions) known.emplace_back(function->name());
  throw InvalidArgument("function", "expected one of " + joined(known) + ", got '" + std::string(name) + "'");
}

const FunctionBase& find_front(std::string_view op) {
  {
    Lock lock;
    Catalog& all = catalog(lock);
    if (!all.ops.contains(op)) {
      settings_in_force(lock).ensure_read(lock);
      load(lock, op);
    }
    for (const FunctionBase* function : all.op_named(op).functions) {
      const ErasedArgs* erased = function->description().erased;
      if (erased != nullptr && erased->front_door != nullptr) return *function;
    }
  }
  return find_function(op, op);
}

std::vector<const FunctionBase*> erased_functions() {
  Lock lock;
  std::vector<const FunctionBase*> found;
  for (const auto& [name, op] : catalog(lock).ops) {
    for (const FunctionBase* function : op.functions) {
      if (function->description().erased != nullptr) found.push_back(function);
    }
  }
  return found;
}

}  // namespace fla::dispatch
