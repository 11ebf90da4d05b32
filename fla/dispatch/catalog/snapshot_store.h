#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "fla/core/recent.h"
#include "fla/dispatch/call/function.h"
#include "fla/dispatch/catalog/lock.h"
#include "fla/dispatch/settings/policy.h"

/// The snapshots that are kept; not installed. fla/dispatch/choice/snapshots.h makes them.
namespace fla::dispatch {

using SharedSnapshot = std::shared_ptr<const Snapshot>;

/// What a snapshot is found by: without rules, and with them.
struct PlainKey {
  const FunctionBase* function;
  bool traced;
  Policy policy;
  friend bool operator==(const PlainKey&, const PlainKey&) = default;
};
/// The parts live as long as what is found by them.
struct RuledKey {
  const Snapshot* plain;
  std::vector<const Snapshot*> under_rules;
  const Decision* decision;
  friend bool operator==(const RuledKey&, const RuledKey&) = default;
};
std::size_t hash_of(const PlainKey& key);
std::size_t hash_of(const RuledKey& key);

class SnapshotStore {
 public:
  /// Settings come back, those of a ScopedPolicy above all: what was made for the last ones is kept.
  Recent<PlainKey, SharedSnapshot> plain{1024};
  Recent<RuledKey, SharedSnapshot> ruled{64};

  /// From now on calls of the function outside a ScopedPolicy find this one.
  void apply_snapshot(Lock& lock, const FunctionBase& function, const SharedSnapshot& snapshot);
  /// Forgets the plain ones of an op whose backends are others now.
  void forget(Lock& lock, std::string_view op);
  /// Backends or settings are others now: none is in force any more.
  void make_stale(Lock& lock);
};

/// The process's, for whoever holds the lock.
SnapshotStore& snapshots(Lock& lock);

/// The one that calls of the function find, or null. Waits for nothing but a moment: not for the lock.
SharedSnapshot in_force(const FunctionBase& function);

}  // namespace fla::dispatch
