#include "fla/dispatch/catalog/snapshot_store.h"

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/lock_order.h"

namespace fla::dispatch {
namespace {

constinit std::atomic<std::uint64_t> current_generation{1};

constinit std::mutex in_force_mutex;  // held for a moment, inside the lock or alone
const bool snapshots_guarded = (guard_against_fork(LockOrder::snapshots, in_force_mutex), true);

/// Those that FunctionBase::snapshot_ points to. Never freed: calls may outlive static objects.
auto& all_in_force() {
  static auto& all = *new std::map<const FunctionBase*, SharedSnapshot>;
  return all;
}

}  // namespace

std::uint64_t generation() { return current_generation.load(std::memory_order_acquire); }

SnapshotStore& snapshots(Lock&) {
  static SnapshotStore& store = *new SnapshotStore;
  return store;
}

std::size_t hash_of(const PlainKey& key) {
  const Policy& policy = key.policy;
  std::size_t hash = mixed(mixed(0, key.function), key.traced);
  const auto add = [&hash](const auto& value) { hash = mixed(hash, value); };
  const auto add_list = [&add](const std::vector<std::string>& list) {
    add(list.size());
    for (const std::string& item : list) add(item);
  };
  for (const auto& [name, on] : policy.enable) add(name), add(on);
  for (const auto* sequences : {&policy.order, &policy.prefer}) {
    add(sequences->size());
    for (const auto& [op, names] : *sequences) add(op), add_list(names);
  }
  for (const auto* list : {&policy.allow, &policy.deny}) add_list(list->value_or(std::vector<std::string>{}));
  for (const auto& [op, name] : policy.require) add(op), add(name);
  add(policy.disable_dispatch);
  add(policy.on_failure);
  add(policy.batch_invariant);
  add(policy.check_verifiers);
  add(policy.breaker_threshold);
  add(policy.breaker_window_ms);
  add(policy.breaker_cool_down_ms);
  return hash;
}

std::size_t hash_of(const RuledKey& key) {
  std::size_t hash = mixed(mixed(0, key.plain), key.decision);
  for (const Snapshot* snapshot : key.under_rules) hash = mixed(hash, snapshot);
  return hash;
}

SharedSnapshot in_force(const FunctionBase& function) {
  const std::lock_guard lock(in_force_mutex);
  const auto known = all_in_force().find(&function);
  return known == all_in_force().end() ? nullptr : known->second;
}

void SnapshotStore::apply_snapshot(Lock& lock, const FunctionBase& function, const SharedSnapshot& snapshot) {
  const std::lock_guard in_force_lock(in_force_mutex);
  SharedSnapshot& mine = all_in_force()[&function];
  if (mine != nullptr) lock.drop(std::move(mine));
  mine = snapshot;
  function.snapshot_.store(snapshot.get(), std::memory_order_release);
  function.only_original_.store(snapshot->only_original ? snapshot->original_counter + 1 : 0,
                                std::memory_order_relaxed);
}

void SnapshotStore::forget(Lock& lock, std::string_view op) {
  plain.remove_if([op](const PlainKey& key) { return key.function->op() == op; },
                  [&lock](SharedSnapshot snapshot) { lock.drop(std::move(snapshot)); });
}

void SnapshotStore::make_stale(Lock& lock) {
  // They hold the rules of the config file, which may be large and another one now.
  ruled.remove_if([](const RuledKey&) { return true; },
                  [&lock](SharedSnapshot snapshot) { lock.drop(std::move(snapshot)); });
  // Twice, so that whoever looked at several functions meanwhile sees that they may not belong together.
  current_generation.fetch_add(1, std::memory_order_acq_rel);
  {
    const std::lock_guard in_force_lock(in_force_mutex);
    for (auto& [function, snapshot] : all_in_force()) {
      function->only_original_.store(0, std::memory_order_relaxed);
      function->snapshot_.store(nullptr, std::memory_order_release);
      lock.drop(std::move(snapshot));
    }
    all_in_force().clear();
  }
  current_generation.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace fla::dispatch
