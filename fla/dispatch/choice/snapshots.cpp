#include "fla/dispatch/choice/snapshots.h"

#include <utility>

#include "fla/dispatch/call/counter_table.h"
#include "fla/dispatch/call/thread_state.h"
#include "fla/dispatch/catalog/catalog.h"
#include "fla/dispatch/registry/loader.h"
#include "fla/dispatch/registry/settings_in_force.h"
#include "fla/dispatch/rules/condition.h"

namespace fla::dispatch {
namespace {

/// A snapshot with what it points to. All snapshots are of this type.
struct OwningSnapshot : Snapshot {
  std::vector<Candidate> candidates;
  std::vector<std::shared_ptr<Entry>> entries;  ///< whose candidates they are, in their order
  std::shared_ptr<const Decision> rules;
  std::vector<SharedSnapshot> under_rules;
  std::vector<const Snapshot*> under_rules_view;
};

BreakerSettings breaker_settings(const Policy& policy) {
  BreakerSettings settings;
  settings.threshold = policy.breaker_threshold.value_or(settings.threshold);
  settings.window_ms = policy.breaker_window_ms.value_or(settings.window_ms);
  settings.cool_down_ms = policy.breaker_cool_down_ms.value_or(settings.cool_down_ms);
  return settings;
}

Verdict refuse_for_batches(const BaseBackend&, const void*) {
  return refuse("does not promise the same bits in any batch, which FLA_BATCH_INVARIANT asks for");
}

Candidate candidate_of(const Op& op, Entry& entry, std::string_view function, const Policy& policy) {
  const Slot& slot = *entry.slot(function);
  const Entry::Pair& pair = entry.pair(op.name, function);
  const bool may_take = entry.info.batch_invariant || !policy.batch_invariant.value_or(false);
  return {may_take ? slot.verify : &refuse_for_batches, slot.run, entry.backend.get(), pair.breaker.get(),
          pair.counter};
}

/// Makes snapshots, or finds them among those that are kept.
class Builder {
 public:
  explicit Builder(Lock& lock) : lock_(lock), settings_(settings_in_force(lock)), kept_(snapshots(lock)) {}

  SharedSnapshot build(const FunctionBase& function, const Op& op) {
    const Layers& layers = settings_.layers;
    const ScopedPolicy::Frame* scope = thread_state.scope;
    SharedSnapshot plain = build_plain(function, op, layers.together(nullptr, scope));
    const std::vector<const ConfigRule*> rules = layers.rules_for(op.name);
    if (rules.empty()) return plain;
    std::vector<SharedSnapshot> under_rules;
    under_rules.reserve(rules.size() + 1);
    for (const ConfigRule* rule : rules)
      under_rules.push_back(build_plain(function, op, layers.together(rule, scope)));
    return build_ruled(plain, std::move(under_rules),
                       layers.file->decision(op.name, function.description().arguments));
  }

 private:
  SharedSnapshot build_plain(const FunctionBase& function, const Op& op, const Policy& policy) {
    PlainKey key{&function, settings_.traced, policy};
    if (const SharedSnapshot* known = kept_.plain.find(key)) return *known;
    const auto made = std::make_shared<OwningSnapshot>();
    OwningSnapshot& snapshot = *made;
    snapshot.original_counter = new_counter(op.name, function.name(), kOriginalKernel.name);
    snapshot.check_verifiers = policy.check_verifiers.value_or(false);
    snapshot.traced = settings_.traced;
    snapshot.breaker = breaker_settings(policy);
    if (const auto required = policy.require.find(op.name); required != policy.require.end()) {
      snapshot.must_take = true;
      snapshot.required = required->second;
      snapshot.required_out = "is gone";
    }
    snapshot.fall_back =
        policy.on_failure.value_or(OnFailure::raise) == OnFailure::fallback && !snapshot.must_take;
    for (const std::shared_ptr<Entry>& entry : asking_order(op, policy)) {
      const Standing where = standing(op, *entry, function.name(), policy, settings_);
      if (entry->name == snapshot.required) {
        snapshot.required_out = where.state.empty() ? "" : "is " + where.state + ": " + where.reason;
      }
      if (!where.state.empty() || policy.disable_dispatch.value_or(false)) continue;
      snapshot.candidates.push_back(candidate_of(op, *entry, function.name(), policy));
      snapshot.entries.push_back(entry);
    }
    snapshot.begin = snapshot.candidates.data();
    snapshot.end = snapshot.begin + snapshot.candidates.size();
    snapshot.only_original = snapshot.begin == snapshot.end && !snapshot.must_take && !snapshot.traced;
    kept_.plain.add(std::move(key), made, [this](SharedSnapshot gone) { lock_.drop(std::move(gone)); });
    return made;
  }

  SharedSnapshot build_ruled(const SharedSnapshot& plain, std::vector<SharedSnapshot> under_rules,
                             std::shared_ptr<const Decision> decision) {
    RuledKey key{plain.get(), {}, decision.get()};
    for (const SharedSnapshot& snapshot : under_rules) key.under_rules.push_back(snapshot.get());
    if (const SharedSnapshot* known = kept_.ruled.find(key)) return *known;
    const auto made = std::make_shared<OwningSnapshot>();
    static_cast<Snapshot&>(*made) = *plain;
    made->entries = static_cast<const OwningSnapshot&>(*plain).entries;
    made->under_rules = std::move(under_rules);
    made->under_rules.push_back(plain);  // whose candidates are this one's, too
    made->under_rules_view = key.under_rules;
    made->rules = std::move(decision);
    made->decision = made->rules.get();
    made->by_rule = made->under_rules_view.data();
    made->only_original = false;
    kept_.ruled.add(std::move(key), made, [this](SharedSnapshot gone) { lock_.drop(std::move(gone)); });
    return made;
  }

  Lock& lock_;
  const SettingsInForce& settings_;
  SnapshotStore& kept_;
};

/// The function's op, its backends loaded.
Op& loaded_op(Lock& lock, const FunctionBase& function) {
  settings_in_force(lock).ensure_read(lock);
  load(lock, function.op());
  return catalog(lock).ops.find(function.op())->second;
}

}  // namespace

std::shared_ptr<const void> owner_of(const Snapshot& snapshot, const Candidate& candidate) {
  return static_cast<const OwningSnapshot&>(snapshot)
      .entries[static_cast<std::size_t>(&candidate - snapshot.begin)];
}

SharedSnapshot snapshot_of(const FunctionBase& function) {
  if (thread_state.scope == nullptr) {
    if (SharedSnapshot known = in_force(function)) return known;
  }
  Lock lock;
  const Op& op = loaded_op(lock, function);
  SharedSnapshot snapshot = Builder(lock).build(function, op);
  // What code of a backend that is being loaded sees is for itself.
  if (thread_state.scope == nullptr && is_loaded(lock, function.op()))
    snapshots(lock).apply_snapshot(lock, function, snapshot);
  return snapshot;
}

Lineup lineup_of(const FunctionBase& function, const void* args) {
  Lock lock;
  const Op& op = loaded_op(lock, function);
  const SettingsInForce& settings = settings_in_force(lock);
  const Layers& layers = settings.layers;
  const SharedSnapshot snapshot = Builder(lock).build(function, op);
  const int holds = snapshot->decision == nullptr ? -1 : snapshot->decision->first(args);
  const ConfigRule* rule = holds < 0 ? nullptr : layers.rules_for(op.name)[static_cast<std::size_t>(holds)];
  Lineup found{layers.together(rule, thread_state.scope), "", snapshot, {}};
  if (rule != nullptr) {
    found.rule = layers.file->path + ":" + std::to_string(rule->line);
    found.snapshot = SharedSnapshot(snapshot, snapshot->by_rule[holds]);
  }
  for (const std::shared_ptr<Entry>& entry : asking_order(op, found.policy)) {
    Lineup::Candidacy candidacy{entry, standing(op, *entry, function.name(), found.policy, settings),
                                std::nullopt};
    if (candidacy.standing.state.empty())
      candidacy.candidate = candidate_of(op, *entry, function.name(), found.policy);
    found.candidates.push_back(std::move(candidacy));
  }
  return found;
}

}  // namespace fla::dispatch
