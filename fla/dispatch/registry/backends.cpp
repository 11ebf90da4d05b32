#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "fla/core/errors.h"
#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/catalog/snapshot_store.h"
#include "fla/dispatch/registry/loader.h"
#include "fla/dispatch/registry/settings_in_force.h"

/// The backends that a program adds itself.
namespace fla::dispatch {
namespace {

/// Throws ConfigError unless a program may add such a backend.
Op& check_new(Catalog& all, std::string_view op_name, std::string_view backend,
              const std::vector<Slot>& slots) {
  const auto found = all.ops.find(op_name);
  if (found == all.ops.end())
    throw ConfigError("register_backend: there is no op '" + std::string(op_name) + "'");
  Op& op = found->second;
  if (const std::string why = name_problem(backend); !why.empty())
    throw ConfigError("register_backend: a backend of op " + op.name + " is " + why);
  if (all.has_backend(op, backend)) {
    throw ConfigError("register_backend: op " + op.name + " has a backend '" + std::string(backend) +
                      "' already");
  }
  if (const std::string why = mismatch(op.functions, op_name, backend, slots); !why.empty())
    throw ConfigError("register_backend: " + why);
  return op;
}

}  // namespace

std::uint64_t add_backend(std::string_view op_name, std::unique_ptr<BaseBackend> backend,
                          std::vector<Slot> slots) {
  const auto entry = std::make_shared<Entry>();  // before the lock: a backend that is refused goes after it
  entry->info = backend->info();
  entry->name = entry->info.name;
  entry->origin = "program";
  entry->backend = std::move(backend);
  entry->slots = std::move(slots);
  Lock lock;
  SettingsInForce& settings = settings_in_force(lock);
  settings.ensure_read(lock);
  load(lock, op_name);
  check_new(catalog(lock), op_name, entry->name, entry->slots);
  lock.unlock();
  entry->backend->configure();
  try {
    entry->availability = entry->backend->is_available();
  } catch (const std::exception& error) {
    entry->availability = Availability::no(std::string("is_available failed: ") + error.what());
  }
  lock.lock();
  Catalog& all = catalog(lock);
  Op& op = check_new(all, op_name, entry->name, entry->slots);  // somebody may have been faster
  if (const auto on = settings.toggle(entry->info)) settings.layers.environment.enable[entry->name] = *on;
  all.add(lock, op, entry);
  snapshots(lock).make_stale(lock);
  return entry->id;
}

void remove_backend(std::uint64_t id) {
  Lock lock;
  Catalog& all = catalog(lock);
  if (const std::shared_ptr<Entry> gone = all.remove(lock, id)) {
    const auto is_there = [&gone](const auto& named) {
      return std::ranges::find(named.second.entries, gone->name, &Entry::name) != named.second.entries.end();
    };
    if (std::ranges::none_of(all.ops, is_there))
      settings_in_force(lock).layers.environment.enable.erase(gone->name);
  }
  snapshots(lock).make_stale(lock);
}

}  // namespace fla::dispatch
