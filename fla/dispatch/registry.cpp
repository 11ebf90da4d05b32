#include "fla/dispatch/registry.h"

#include <algorithm>
#include <tuple>

#include "fla/core/errors.h"
#include "fla/core/fork.h"
#include "fla/core/logging.h"
#include "fla/core/threads.h"
#include "fla/dispatch/registry_state.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace fla {

BaseBackend::~BaseBackend() = default;

std::vector<OpStatus> ops() { return dispatch::Registry::instance().status(); }

namespace dispatch {
namespace {

std::map<std::string, std::string> fla_variables() {
  std::map<std::string, std::string> found;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto equals = text.find('=');
    if (!text.starts_with("FLA_") || equals == std::string_view::npos || equals + 1 == text.size()) continue;
    found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

/// Whether a list of "backend" and "op.backend" names this backend of this op.
bool names(const std::vector<std::string>& list, const std::string& op, const std::string& backend) {
  return std::ranges::any_of(
      list, [&](const std::string& item) { return item == backend || item == op + "." + backend; });
}

}  // namespace

Registration::Registration(const Recipe& recipe) { Registry::instance().add_recipe(recipe); }

FunctionBase::FunctionBase(const Description& description) : description_(description) {
  Registry::instance().add_function(*this);
}

const Snapshot& FunctionBase::find_snapshot() const {
  Registry& registry = Registry::instance();
  ScopedPolicy::Frame* scope = thread_state.scope;
  if (scope == nullptr) return registry.snapshot(*this);
  const std::uint64_t generation = registry.generation();
  for (const ScopedPolicy::Frame::Known& known : scope->known) {
    if (known.function == this && known.generation == generation) return *known.snapshot;
  }
  const Snapshot& found = registry.snapshot(*this);
  std::erase_if(scope->known, [this](const auto& known) { return known.function == this; });
  scope->known.push_back({this, generation, &found});
  return found;
}

std::uint64_t add_backend(std::string_view op, std::unique_ptr<BaseBackend> backend,
                          std::vector<Slot> slots) {
  return Registry::instance().add_backend(op, std::move(backend), std::move(slots));
}

void remove_backend(std::uint64_t id) { Registry::instance().remove_backend(id); }

const Slot* Entry::slot(std::string_view function) const {
  const auto found = std::ranges::find(slots, function, &Slot::function);
  return found == slots.end() ? nullptr : &*found;
}

Registry& Registry::instance() {
  static Registry& registry = *new Registry;  // never freed: calls may outlive static objects
  return registry;
}

Registry::Registry() { guard_against_fork(ForkOrder::registry, mutex_); }

void Registry::add_function(const FunctionBase& function) {
  const std::lock_guard lock(mutex_);
  Op& op = ops_[std::string(function.op())];
  op.name = function.op();
  op.functions.push_back(&function);
}

void Registry::add_recipe(const Recipe& recipe) {
  const std::lock_guard lock(mutex_);
  recipes_.push_back(recipe);
}

Op& Registry::op_named(std::string_view name) {
  const auto found = ops_.find(name);
  if (found != ops_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [op, ignored] : ops_) known.push_back(op);
  throw InvalidArgument("op", "expected one of " + joined(known) + ", got '" + std::string(name) + "'");
}

const FunctionBase& Registry::function(std::string_view op, std::string_view name) {
  const std::lock_guard lock(mutex_);
  const Op& found = op_named(op);
  for (const FunctionBase* function : found.functions) {
    if (function->name() == name) return *function;
  }
  std::vector<std::string> known;
  for (const FunctionBase* function : found.functions) known.emplace_back(function->name());
  throw InvalidArgument("function", "expected one of " + joined(known) + ", got '" + std::string(name) + "'");
}

void Registry::insert(Op& op, std::unique_ptr<Entry> entry) {
  entry->id = ++last_id_;
  for (const FunctionBase* function : op.functions) {
    entry->counters.emplace(function->name(), new_counter(op.name, function->name(), entry->name));
  }
  op.entries.push_back(entry.get());
  std::ranges::sort(op.entries, {}, [](const Entry* e) { return std::tie(e->info.priority, e->name); });
  entries_.push_back(std::move(entry));
  ++op.version;
}

void Registry::load(Op& op) {
  if (op.loaded) return;
  std::vector<std::unique_ptr<Entry>> made;
  for (const Recipe& recipe : recipes_) {
    if (recipe.op != op.name) continue;
    auto entry = std::make_unique<Entry>();
    entry->name = recipe.name;
    entry->info.name = recipe.name;
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
          "[FLA Backend] " + op.name + ": " + entry->name + " " + entry->availability.reason);
    }
    made.push_back(std::move(entry));
  }
  std::map<std::string, bool> toggles;
  for (const auto& entry : made) {
    if (const auto on = toggle(entry->info)) toggles[entry->name] = *on;
  }
  for (const auto& [name, on] : toggles) environment_.enable[name] = on;
  for (auto& entry : made) insert(op, std::move(entry));
  op.loaded = true;
}

std::uint64_t Registry::add_backend(std::string_view op_name, std::unique_ptr<BaseBackend> backend,
                                    std::vector<Slot> slots) {
  const std::lock_guard lock(mutex_);
  const auto found = ops_.find(op_name);
  if (found == ops_.end())
    throw ConfigError("register_backend: there is no op '" + std::string(op_name) + "'");
  Op& op = found->second;
  ensure_environment();
  load(op);
  auto entry = std::make_unique<Entry>();
  entry->info = backend->info();
  entry->name = entry->info.name;
  if (std::ranges::any_of(op.entries, [&](const Entry* other) { return other->name == entry->name; })) {
    throw ConfigError("register_backend: op " + op.name + " has a backend '" + entry->name + "' already");
  }
  entry->backend = std::move(backend);
  entry->slots = std::move(slots);
  for (const Slot& slot : entry->slots) {
    for (const FunctionBase* function : op.functions) {
      if (function->name() == slot.function && *function->description().signature != *slot.signature) {
        throw ConfigError("register_backend: " + entry->name + "'s " + std::string(slot.function) +
                          " has other types than " + op.name + "'s");
      }
    }
  }
  entry->backend->configure();
  try {
    entry->availability = entry->backend->is_available();
  } catch (const std::exception& error) {
    entry->availability = Availability::no(std::string("is_available failed: ") + error.what());
  }
  if (const auto on = toggle(entry->info)) environment_.enable[entry->name] = *on;
  const std::uint64_t id = last_id_ + 1;
  insert(op, std::move(entry));
  make_stale();
  return id;
}

void Registry::remove_backend(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, op] : ops_) {
    if (std::erase_if(op.entries, [id](const Entry* entry) { return entry->id == id; }) > 0) ++op.version;
  }
  make_stale();
}

void Registry::make_stale() {
  generation_.fetch_add(1, std::memory_order_release);
  for (const auto& [name, op] : ops_) {
    for (const FunctionBase* function : op.functions)
      function->snapshot_.store(nullptr, std::memory_order_release);
  }
}

std::optional<bool> Registry::toggle(const BackendInfo& info) const {
  const auto variable = variables_.find(std::string(info.env_var));
  if (variable == variables_.end()) return std::nullopt;
  return parse_switch(variable->first, variable->second);
}

std::map<std::string, bool> Registry::toggles(const Op& op) const {
  std::map<std::string, bool> found;
  for (const Entry* entry : op.entries) {
    if (const auto on = toggle(entry->info)) found[entry->name] = *on;
  }
  return found;
}

void Registry::ensure_environment() {
  if (environment_read_) return;
  auto variables = fla_variables();
  Policy policy = policy_from(variables);
  check_names(policy, true);
  check_sense(merge(policy, program_));
  const auto level = log_level_of_environment();
  obey_thread_count(thread_count_of_environment());
  obey_log_level(level);
  variables_ = std::move(variables);
  environment_ = std::move(policy);
  environment_read_ = true;
}

void Registry::reload_environment() {
  const std::lock_guard lock(mutex_);
  auto variables = fla_variables();
  Policy policy = policy_from(variables);
  check_names(policy, true);
  check_sense(merge(policy, program_));
  const auto level = log_level_of_environment();
  const int threads = thread_count_of_environment();
  std::swap(variables_, variables);
  try {
    for (const auto& [name, op] : ops_) {
      for (const auto& [backend, on] : toggles(op)) policy.enable[backend] = on;
    }
    for (const auto& [name, op] : ops_) {
      for (const Entry* entry : op.entries) {
        if (entry->backend != nullptr) entry->backend->configure();
      }
    }
    obey_thread_count(threads);
    obey_log_level(level);
  } catch (...) {
    std::swap(variables_, variables);
    throw;
  }
  environment_ = std::move(policy);
  environment_read_ = true;
  make_stale();
}

void Registry::set_policy(const Policy& policy) {
  const std::lock_guard lock(mutex_);
  ensure_environment();
  check_names(policy, false);
  check_sense(merge(environment_, policy));
  program_ = policy;
  make_stale();
}

void Registry::check_scoped(const Policy& policy) {
  const std::lock_guard lock(mutex_);
  ensure_environment();
  check_names(policy, false);
  check_sense(merge(in_force(), policy));
}

Policy Registry::policy() {
  const std::lock_guard lock(mutex_);
  ensure_environment();
  return merge(environment_, program_);
}

Policy Registry::in_force() const {
  std::vector<const Policy*> scopes;
  for (const ScopedPolicy::Frame* frame = thread_state.scope; frame != nullptr; frame = frame->parent) {
    scopes.push_back(&frame->policy);
  }
  Policy policy = merge(environment_, program_);
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    policy = merge(std::move(policy), **scope);
  return policy;
}

std::vector<std::string> Registry::backend_names(std::string_view op_name) const {
  std::vector<std::string> found;
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(found, name) == found.end()) found.emplace_back(name);
  };
  for (const Recipe& recipe : recipes_) {
    if (op_name.empty() || recipe.op == op_name) add(recipe.name);
  }
  for (const auto& [name, op] : ops_) {
    if (!op_name.empty() && name != op_name) continue;
    for (const Entry* entry : op.entries) add(entry->name);
  }
  return found;
}

void Registry::check_names(const Policy& policy, bool from_environment) const {
  const auto check_backend = [&](std::string_view setting, std::string_view op, const std::string& backend) {
    const std::vector<std::string> known = backend_names(op);
    if (std::ranges::find(known, backend) != known.end()) return;
    const std::string where =
        op.empty() ? "no op has a backend" : "op " + std::string(op) + " has no backend";
    throw ConfigError(std::string(setting) + ": " + where + " '" + backend + "' (known: " + joined(known) +
                      ")");
  };
  const auto check_op = [&](std::string_view setting, const std::string& op) {
    if (ops_.contains(op)) return;
    std::vector<std::string> known;
    for (const auto& [name, ignored] : ops_) known.push_back(name);
    throw ConfigError(std::string(setting) + ": there is no op '" + op + "' (known: " + joined(known) + ")");
  };
  const auto check_list = [&](std::string_view setting, const std::vector<std::string>& list) {
    for (const std::string& item : list) {
      const auto dot = item.find('.');
      if (dot == std::string::npos) {
        check_backend(setting, "", item);
      } else {
        check_op(setting, item.substr(0, dot));
        check_backend(setting, item.substr(0, dot), item.substr(dot + 1));
      }
    }
  };
  const std::string_view order = from_environment ? "FLA_BACKEND_ORDER" : "Policy::order";
  for (const auto& [op, backends] : policy.order) {
    check_op(order, op);
    for (const std::string& backend : backends) {
      check_backend(order, op, backend);
      if (std::ranges::count(backends, backend) > 1) {
        throw ConfigError(std::string(order) + ": " + backend + " stands twice for op " + op);
      }
    }
  }
  if (policy.allow) check_list(from_environment ? "FLA_BACKEND_ALLOW" : "Policy::allow", *policy.allow);
  if (policy.deny) check_list(from_environment ? "FLA_BACKEND_DENY" : "Policy::deny", *policy.deny);
  const std::string_view require = from_environment ? "FLA_BACKEND_REQUIRE" : "Policy::require";
  for (const auto& [op, backend] : policy.require) {
    check_op(require, op);
    check_backend(require, op, backend);
  }
  for (const auto& [backend, on] : policy.enable) check_backend("Policy::enable", "", backend);
}

void Registry::check_sense(const Policy& policy) {
  if (!policy.disable_dispatch.value_or(false) || policy.require.empty()) return;
  const auto& [op, backend] = *policy.require.begin();
  throw ConfigError("FLA_BACKEND_REQUIRE: " + op + "=" + backend +
                    " cannot be met while dispatch is disabled (FLA_DISABLE_BACKEND_DISPATCH)");
}

std::vector<const Entry*> Registry::asking_order(const Op& op, const Policy& policy) const {
  std::vector<const Entry*> entries(op.entries.begin(), op.entries.end());
  const auto order = policy.order.find(op.name);
  if (order == policy.order.end()) return entries;
  const auto place = [&](const Entry* entry) {
    return std::ranges::find(order->second, entry->name) - order->second.begin();
  };
  std::ranges::stable_sort(entries, {}, place);
  return entries;
}

Standing Registry::standing(const Op& op, const Entry& entry, std::string_view function,
                            const Policy& policy) const {
  if (!entry.availability.available) return {"unavailable", entry.availability.reason};
  const Slot* slot = entry.slot(function);
  if (slot == nullptr || slot->run == nullptr) return {"not_implemented", "has no " + std::string(function)};
  const auto toggle = policy.enable.find(entry.name);
  const std::string variable(entry.info.env_var);
  if (toggle == policy.enable.end() && !entry.info.default_enable)
    return {"disabled", "off unless " + variable + "=1"};
  if (toggle != policy.enable.end() && !toggle->second) {
    const auto set = variables_.find(variable);
    return {"disabled", set == variables_.end() ? "turned off by the policy" : variable + "=" + set->second};
  }
  if (policy.deny && names(*policy.deny, op.name, entry.name)) return {"denied", "named in the deny list"};
  if (policy.allow && !names(*policy.allow, op.name, entry.name))
    return {"denied", "not named in the allow list"};
  const auto order = policy.order.find(op.name);
  if (order != policy.order.end() && std::ranges::find(order->second, entry.name) == order->second.end()) {
    return {"denied", "not named in the order for " + op.name};
  }
  const auto required = policy.require.find(op.name);
  if (required != policy.require.end() && required->second != entry.name) {
    return {"denied", required->second + " is required for " + op.name};
  }
  return {};
}

const Snapshot& Registry::build(const FunctionBase& function, const Op& op, const Policy& policy) {
  for (const auto& kept : snapshots_) {
    if (kept->function == &function && kept->version == op.version && kept->policy == policy)
      return *kept->snapshot;
  }
  auto kept = std::make_unique<Kept>(Kept{&function, op.version, policy, std::make_unique<Snapshot>(), {}});
  Snapshot& snapshot = *kept->snapshot;
  snapshot.original_counter = new_counter(op.name, function.name(), "original");
  snapshot.fall_back = policy.on_failure.value_or(OnFailure::raise) == OnFailure::fallback;
  snapshot.check_verifiers = policy.check_verifiers.value_or(false);
  if (const auto required = policy.require.find(op.name); required != policy.require.end()) {
    snapshot.must_take = true;
    snapshot.required = required->second;
    snapshot.required_out = "is gone";
  }
  for (const Entry* entry : asking_order(op, policy)) {
    const Standing where = standing(op, *entry, function.name(), policy);
    if (entry->name == snapshot.required) {
      snapshot.required_out = where.state.empty() ? "" : "is " + where.state + ": " + where.reason;
    }
    if (!where.state.empty() || policy.disable_dispatch.value_or(false)) continue;
    const Slot* slot = entry->slot(function.name());
    kept->candidates.push_back(
        {slot->verify, slot->run, entry->backend.get(), entry->counters.find(function.name())->second});
  }
  snapshot.begin = kept->candidates.data();
  snapshot.end = snapshot.begin + kept->candidates.size();
  snapshot.only_original = snapshot.begin == snapshot.end && !snapshot.must_take;
  snapshots_.push_back(std::move(kept));
  return snapshot;
}

const Snapshot& Registry::snapshot(const FunctionBase& function) {
  const std::lock_guard lock(mutex_);
  ensure_environment();
  Op& op = ops_.find(function.op())->second;
  load(op);
  const Snapshot& snapshot = build(function, op, in_force());
  if (thread_state.scope == nullptr) function.snapshot_.store(&snapshot, std::memory_order_release);
  return snapshot;
}

Registry::Lineup Registry::lineup(const FunctionBase& function) {
  snapshot(function);  // loads what has to be loaded
  const std::lock_guard lock(mutex_);
  const Op& op = ops_.find(function.op())->second;
  Lineup found{in_force(), {}};
  for (const Entry* entry : asking_order(op, found.policy)) {
    const Slot* slot = entry->slot(function.name());
    found.candidates.push_back(
        {entry, standing(op, *entry, function.name(), found.policy), slot ? slot->verify : nullptr});
  }
  return found;
}

std::vector<OpStatus> Registry::status() {
  const std::lock_guard lock(mutex_);
  ensure_environment();
  std::vector<OpStatus> found;
  for (auto& [name, op] : ops_) {
    load(op);
    OpStatus status{.name = name,
                    .functions = {},
                    .arguments = op.functions.front()->description().arguments,
                    .backends = {}};
    for (const FunctionBase* function : op.functions) status.functions.emplace_back(function->name());
    const Policy policy = in_force();
    for (const Entry* entry : op.entries) {
      BackendStatus row{.info = entry->info,
                        .functions = {},
                        .available = entry->availability.available,
                        .reason = entry->availability.reason,
                        .variables = {}};
      for (const Slot& slot : entry->slots) {
        if (slot.run == nullptr) continue;
        row.functions.emplace_back(slot.function);
        const Standing where = standing(op, *entry, slot.function, policy);
        if (where.state == "disabled" || where.state == "denied") {
          row.enabled = false;
          row.reason = where.reason;
        }
      }
      if (entry->backend != nullptr) {
        const auto own = entry->backend->variables();
        row.variables.assign(own.begin(), own.end());
      }
      status.backends.push_back(std::move(row));
    }
    found.push_back(std::move(status));
  }
  return found;
}

}  // namespace dispatch
}  // namespace fla
