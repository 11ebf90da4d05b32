#include <algorithm>
#include <filesystem>
#include <tuple>

#include "fla/core/errors.h"
#include "fla/core/logging.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/lock_order.h"
#include "fla/dispatch/registry/registry_state.h"

namespace fla {

std::vector<OpStatus> ops() { return dispatch::Registry::instance().status(); }

namespace dispatch {
namespace {

constinit thread_local Collected* collected = nullptr;

}  // namespace

Collecting::Collecting(Collected& into) { collected = &into; }
Collecting::~Collecting() { collected = nullptr; }

Registration::Registration(const Recipe& recipe) { Registry::instance().add_recipe(recipe); }

FunctionBase::FunctionBase(const Description& description) : description_(description) {
  static constinit std::atomic<std::uint32_t> count{0};
  index_ = count.fetch_add(1, std::memory_order_relaxed);
  Registry::instance().add_function(*this);
}

std::uint64_t add_backend(std::string_view op, std::unique_ptr<BaseBackend> backend,
                          std::vector<Slot> slots) {
  return Registry::instance().add_backend(op, std::move(backend), std::move(slots));
}

void remove_backend(std::uint64_t id) { Registry::instance().remove_backend(id); }

std::uint64_t generation() { return Registry::instance().generation(); }

const Slot* Entry::slot(std::string_view function) const {
  const auto found = std::ranges::find(slots, function, &Slot::function);
  return found == slots.end() ? nullptr : &*found;
}

void Entry::add_pair(std::string_view op, std::string_view function) {
  if (const Slot* its = slot(function); its != nullptr && its->run != nullptr) pair(op, function);
}

const Entry::Pair& Entry::pair(std::string_view op, std::string_view function) {
  const auto found = pairs.find(function);
  if (found != pairs.end()) return found->second;
  auto breaker = new_breaker(op, function, name);
  return pairs.emplace(function, Pair{new_counter(op, function, name), std::move(breaker)}).first->second;
}

Entry::~Entry() {
  for (const auto& [function, pair] : pairs) release_counter(pair.counter);
}

Registry& Registry::instance() {
  static Registry& registry = *new Registry;  // never freed: calls may outlive static objects
  return registry;
}

Registry::Registry() {
  guard_against_fork(LockOrder::loading, loading_);
  guard_against_fork(LockOrder::registry, mutex_);
  guard_against_fork(LockOrder::snapshots, in_force_mutex_);
}

void Registry::add_function(const FunctionBase& function) {
  if (collected != nullptr) return collected->functions.push_back(&function);
  const Lock lock(*this);
  insert(function);
}

void Registry::insert(const FunctionBase& function) {
  Op& op = ops_[std::string(function.op())];
  op.name = function.op();
  op.functions.push_back(&function);
  (void)new_counter(op.name, function.name(), kOriginalKernel.name);
  for (const auto& entry : op.entries) entry->add_pair(op.name, function.name());
}

void Registry::add_recipe(const Recipe& recipe) {
  if (collected != nullptr) return collected->recipes.push_back(recipe);
  const Lock lock(*this);
  recipes_.push_back({recipe, ""});
}

Op& Registry::op_named(std::string_view name) {
  const auto found = ops_.find(name);
  if (found != ops_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [op, ignored] : ops_) known.push_back(op);
  throw InvalidArgument("op", "expected one of " + joined(known) + ", got '" + std::string(name) + "'");
}

const FunctionBase& Registry::function(std::string_view op, std::string_view name) {
  Lock lock(*this);
  const auto find = [&]() -> const FunctionBase* {
    const auto known = ops_.find(op);
    if (known == ops_.end()) return nullptr;
    const auto found = std::ranges::find(known->second.functions, name, &FunctionBase::name);
    return found == known->second.functions.end() ? nullptr : *found;
  };
  if (const FunctionBase* found = find()) return *found;
  ensure_environment();
  load(lock, op);
  if (const FunctionBase* found = find()) return *found;
  std::vector<std::string> known;
  for (const FunctionBase* function : op_named(op).functions) known.emplace_back(function->name());
  throw InvalidArgument("function", "expected one of " + joined(known) + ", got '" + std::string(name) + "'");
}

void Registry::insert(Op& op, std::shared_ptr<Entry> entry) {
  entry->id = ++last_id_;
  for (const FunctionBase* function : op.functions) entry->add_pair(op.name, function->name());
  op.entries.push_back(std::move(entry));
  std::ranges::sort(op.entries, {}, [](const auto& e) { return std::tie(e->info.priority, e->name); });
  forget_snapshots(op);
}

std::shared_ptr<Entry> Registry::make_entry(const Recipe& recipe, const std::string& origin) {
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

bool Registry::is_loaded(std::string_view op) const {
  const auto found = ops_.find(op);
  return (found == ops_.end() || found->second.loaded) && !Plugins::instance().may_serve(op);
}

void Registry::load_recipes(Lock& lock, std::string_view name) {
  const auto found = ops_.find(name);
  if (found == ops_.end() || found->second.loaded) return;
  Op& op = found->second;  // ops stay
  const auto is_made = [&op](std::string_view backend) {
    return std::ranges::any_of(op.entries, [backend](const auto& entry) { return entry->name == backend; });
  };
  std::vector<KnownRecipe> waiting;
  for (const KnownRecipe& known : recipes_) {
    if (known.recipe.op == op.name && !is_made(known.recipe.name)) waiting.push_back(known);
  }
  lock.unlock();
  std::vector<std::shared_ptr<Entry>> made;
  for (const auto& [recipe, origin] : waiting) made.push_back(make_entry(recipe, origin));
  lock.lock();
  std::map<std::string, bool> toggles;
  try {
    for (const auto& entry : made) {
      if (const auto on = toggle(entry->info)) toggles[entry->name] = *on;
    }
  } catch (...) {
    for (auto& entry : made) drop(std::move(entry));
    throw;
  }
  for (const auto& [backend, on] : toggles) layers_.environment.enable[backend] = on;
  for (auto& entry : made) insert(op, std::move(entry));
  op.loaded = op.wanted = true;
  if (!waiting.empty()) make_stale();  // their own code may have made calls without them
}

void Registry::load(Lock& lock, std::string_view op) {
  if (is_loaded(op) || loading_.within()) return;
  const bool may_come = Plugins::instance().may_serve(op);
  lock.unlock();
  {
    const Loading::Turn turn(loading_);
    if (may_come) load_plugins(op);
    lock.lock();
    load_recipes(lock, op);
  }
  if (may_come) check_loaded();
  tell_of_unknown_variables(lock);
}

void Registry::load_known(Lock& lock) {
  std::vector<std::string> waiting;
  for (const auto& [name, op] : ops_) {
    if (!op.loaded) waiting.push_back(name);
  }
  if (waiting.empty() || loading_.within()) return;
  lock.unlock();
  const Loading::Turn turn(loading_);
  lock.lock();
  for (const std::string& name : waiting) load_recipes(lock, name);
}

void Registry::load_plugins(std::string_view op) {
  for (const Arrival& arrival : Plugins::instance().load_for(op)) {
    std::string refused;
    try {
      const Lock lock(*this);
      refused = admit(arrival, op);
    } catch (const std::exception& error) {
      refused = std::string("it could not be taken in: ") + error.what();
    }
    Plugins::instance().settle(arrival.path, refused);
  }
}

namespace {

/// Why a backend cannot serve these functions of an op; empty when it can.
std::string mismatch(const std::vector<const FunctionBase*>& functions, std::string_view op,
                     std::string_view backend, const std::vector<Slot>& slots) {
  for (const Slot& slot : slots) {
    const auto found = std::ranges::find(functions, slot.function, &FunctionBase::name);
    if (found == functions.end() || slot.signature == nullptr) continue;
    const FunctionBase::Description& expected = (*found)->description();
    const std::string what = std::string(backend) + "'s " + std::string(slot.function);
    if (expected.args_size != slot.args_size) {
      return what + " takes arguments of " + std::to_string(slot.args_size) + " bytes, " + std::string(op) +
             "'s are " + std::to_string(expected.args_size);
    }
    if (*expected.signature != *slot.signature)
      return what + " has other types than " + std::string(op) + "'s";
  }
  return "";
}

}  // namespace

std::string Registry::objection_to(const Arrival& arrival) const {
  std::vector<PresentOp> present;
  for (const auto& [name, op] : ops_) {
    PresentOp& its = present.emplace_back(PresentOp{.name = name});
    // Those that are there, not those that files promise: this file's own are among them.
    for (const auto& [recipe, origin] : recipes_) {
      if (recipe.op == name) its.backends.emplace_back(recipe.name);
    }
    for (const auto& entry : op.entries) its.backends.push_back(entry->name);
    for (const FunctionBase* function : op.functions)
      its.functions.push_back({function->name(), function->description().args_size});
  }
  if (std::string why = objection(arrival, present); !why.empty()) return why;
  for (const Recipe& recipe : arrival.recipes) {
    const auto op = ops_.find(recipe.op);
    if (op == ops_.end()) continue;
    if (std::string why = mismatch(op->second.functions, recipe.op, recipe.name, recipe.slots());
        !why.empty())
      return why;
  }
  return "";
}

/// Takes in what a plugin brings, or none of it; says why not.
std::string Registry::admit(const Arrival& arrival, std::string_view called) {
  const std::string refused = arrival.refused.empty() ? objection_to(arrival) : arrival.refused;
  if (!refused.empty()) {
    const auto found = ops_.find(called);
    if (found == ops_.end()) return refused;
    Op& op = found->second;
    auto entry = std::make_shared<Entry>();
    entry->name = arrival.plugin;
    const auto is_taken = [&] {
      return entry->name.empty() ||
             std::ranges::any_of(op.entries, [&](const auto& e) { return e->name == entry->name; }) ||
             std::ranges::any_of(recipes_, [&](const KnownRecipe& known) {
               return known.recipe.op == op.name && known.recipe.name == entry->name;
             });
    };
    if (is_taken()) entry->name = std::filesystem::path(arrival.path).filename();
    if (is_taken()) entry->name = arrival.path;
    entry->origin = arrival.path;
    entry->info.name = entry->name;
    entry->availability = Availability::no("plugin " + arrival.path + ": " + refused);
    insert(op, std::move(entry));
    make_stale();
    return refused;
  }
  for (const FunctionBase* function : arrival.functions) insert(*function);
  for (const Recipe& recipe : arrival.recipes) {
    recipes_.push_back({recipe, arrival.path});
    ops_.find(recipe.op)->second.loaded = false;
  }
  make_stale();
  return "";
}

Registry::Available Registry::available(std::string_view name) {
  Lock lock(*this);
  ensure_environment();
  load(lock, name);
  const Op& op = op_named(name);
  Available found{{}, op.functions};
  std::ranges::copy_if(op.entries, std::back_inserter(found.entries),
                       [](const auto& entry) { return entry->availability.available; });
  return found;
}

void Registry::load_again(std::string_view op) {
  Lock lock(*this);
  const auto found = ops_.find(op);
  if (found == ops_.end() || !found->second.wanted) return;
  load(lock, op);  // waits for whoever is at it
}

void Registry::check_new(std::string_view op_name, std::string_view backend, const std::vector<Slot>& slots) {
  const auto found = ops_.find(op_name);
  if (found == ops_.end())
    throw ConfigError("register_backend: there is no op '" + std::string(op_name) + "'");
  if (const std::string why = name_problem(backend); !why.empty())
    throw ConfigError("register_backend: a backend of op " + found->second.name + " is " + why);
  const bool is_there =
      std::ranges::any_of(found->second.entries, [&](const auto& other) { return other->name == backend; });
  const bool is_coming = std::ranges::any_of(recipes_, [&](const KnownRecipe& known) {
    return known.recipe.op == op_name && known.recipe.name == backend;
  });
  if (is_there || is_coming) {
    throw ConfigError("register_backend: op " + found->second.name + " has a backend '" +
                      std::string(backend) + "' already");
  }
  if (const std::string why = mismatch(found->second.functions, op_name, backend, slots); !why.empty())
    throw ConfigError("register_backend: " + why);
}

std::uint64_t Registry::add_backend(std::string_view op_name, std::unique_ptr<BaseBackend> backend,
                                    std::vector<Slot> slots) {
  const auto entry = std::make_shared<Entry>();  // before the lock: a backend that is refused goes after it
  entry->info = backend->info();
  entry->name = entry->info.name;
  entry->origin = "program";
  entry->backend = std::move(backend);
  entry->slots = std::move(slots);
  Lock lock(*this);
  ensure_environment();
  load(lock, op_name);
  check_new(op_name, entry->name, entry->slots);
  lock.unlock();
  entry->backend->configure();
  try {
    entry->availability = entry->backend->is_available();
  } catch (const std::exception& error) {
    entry->availability = Availability::no(std::string("is_available failed: ") + error.what());
  }
  lock.lock();
  check_new(op_name, entry->name, entry->slots);  // somebody may have been faster
  if (const auto on = toggle(entry->info)) layers_.environment.enable[entry->name] = *on;
  insert(ops_.find(op_name)->second, entry);
  make_stale();
  return entry->id;
}

void Registry::remove_backend(std::uint64_t id) {
  const Lock lock(*this);
  for (auto& [name, op] : ops_) {
    const auto found = std::ranges::find(op.entries, id, &Entry::id);
    if (found == op.entries.end()) continue;
    const std::shared_ptr<Entry> gone = *found;
    op.entries.erase(found);
    const auto is_there = [&gone](const auto& named) {
      return std::ranges::find(named.second.entries, gone->name, &Entry::name) != named.second.entries.end();
    };
    if (std::ranges::none_of(ops_, is_there)) layers_.environment.enable.erase(gone->name);
    forget_snapshots(op);
    drop(gone);
    break;
  }
  make_stale();
}

void Registry::forget_snapshots(const Op& op) {
  plain_.remove_if([&op](const PlainKey& key) { return key.function->op() == op.name; },
                   [this](Shared snapshot) { drop(std::move(snapshot)); });
}

void Registry::make_stale() {
  // They hold the rules of the config file, which may be large and another one now.
  ruled_.remove_if([](const RuledKey&) { return true; },
                   [this](Shared snapshot) { drop(std::move(snapshot)); });
  // Twice, so that whoever looked at several functions meanwhile sees that they may not belong together.
  generation_.fetch_add(1, std::memory_order_acq_rel);
  {
    const std::lock_guard lock(in_force_mutex_);
    for (auto& [function, snapshot] : in_force_) {
      function->only_original_.store(0, std::memory_order_relaxed);
      function->snapshot_.store(nullptr, std::memory_order_release);
      drop(std::move(snapshot));
    }
    in_force_.clear();
  }
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace dispatch
}  // namespace fla
