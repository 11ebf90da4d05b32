#include <algorithm>

#include "fla/dispatch/registry_state.h"

/// Who is asked: the registry's answer for a function under the settings of a thread.
namespace fla::dispatch {
namespace {

/// Whether a list of "backend" and "op.backend" names this backend of this op.
bool is_named(const std::vector<std::string>& list, const std::string& op, const std::string& backend) {
  return std::ranges::any_of(
      list, [&](const std::string& item) { return item == backend || item == op + "." + backend; });
}

}  // namespace

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

const Snapshot& choose_by_rules(const Snapshot& snapshot, const void* args) noexcept {
  const int rule = snapshot.decision->first(args);
  return rule < 0 ? snapshot : *snapshot.by_rule[rule];
}

std::vector<Entry*> Registry::asking_order(const Op& op, const Policy& policy) const {
  std::vector<Entry*> entries = op.entries;
  for (const auto* sequences : {&policy.order, &policy.prefer}) {  // the later one has the greater weight
    const auto sequence = sequences->find(op.name);
    if (sequence == sequences->end()) continue;
    const std::vector<std::string>& names = sequence->second;
    std::ranges::stable_sort(entries, {}, [&](const Entry* entry) {
      return std::ranges::find(names, entry->name) - names.begin();
    });
  }
  return entries;
}

Standing Registry::standing(const Op& op, const Entry& entry, std::string_view function,
                            const Policy& policy) const {
  if (!entry.availability.available) return {"unavailable", entry.availability.reason};
  const Slot* slot = entry.slot(function);
  if (slot == nullptr || slot->run == nullptr) return {"not_implemented", "has no " + std::string(function)};
  return standing_by_policy(op, entry, policy);
}

Standing Registry::standing_by_policy(const Op& op, const Entry& entry, const Policy& policy) const {
  const auto toggle = policy.enable.find(entry.name);
  const std::string variable(entry.info.env_var);
  if (toggle == policy.enable.end() && !entry.info.default_enable)
    return {"disabled", "off unless " + variable + "=1"};
  if (toggle != policy.enable.end() && !toggle->second) {
    const auto set = variables_.find(variable);
    return {"disabled", set == variables_.end() ? "turned off by the policy" : variable + "=" + set->second};
  }
  if (policy.deny && is_named(*policy.deny, op.name, entry.name)) return {"denied", "named in the deny list"};
  if (policy.allow && !is_named(*policy.allow, op.name, entry.name))
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

const Snapshot& Registry::build_plain(const FunctionBase& function, Op& op, const Policy& policy) {
  for (const auto& kept : snapshots_) {
    if (kept->function == &function && kept->version == op.version && kept->traced == traced_ &&
        kept->policy == policy)
      return *kept->snapshot;
  }
  auto kept =
      std::make_unique<Kept>(Kept{&function, op.version, policy, traced_, std::make_unique<Snapshot>(), {}});
  Snapshot& snapshot = *kept->snapshot;
  snapshot.original_counter = new_counter(op.name, function.name(), "original");
  snapshot.check_verifiers = policy.check_verifiers.value_or(false);
  snapshot.traced = traced_;
  snapshot.breaker = breaker_settings(policy);
  if (const auto required = policy.require.find(op.name); required != policy.require.end()) {
    snapshot.must_take = true;
    snapshot.required = required->second;
    snapshot.required_out = "is gone";
  }
  snapshot.fall_back =
      policy.on_failure.value_or(OnFailure::raise) == OnFailure::fallback && !snapshot.must_take;
  for (Entry* entry : asking_order(op, policy)) {
    const Standing where = standing(op, *entry, function.name(), policy);
    if (entry->name == snapshot.required) {
      snapshot.required_out = where.state.empty() ? "" : "is " + where.state + ": " + where.reason;
    }
    if (!where.state.empty() || policy.disable_dispatch.value_or(false)) continue;
    const Slot* slot = entry->slot(function.name());
    const Entry::Pair& pair = entry->pair(op.name, function.name());
    kept->candidates.push_back({slot->verify, slot->run, entry->backend.get(), pair.breaker, pair.counter});
  }
  snapshot.begin = kept->candidates.data();
  snapshot.end = snapshot.begin + kept->candidates.size();
  snapshot.only_original = snapshot.begin == snapshot.end && !snapshot.must_take && !traced_;
  snapshots_.push_back(std::move(kept));
  return snapshot;
}

const Snapshot& Registry::build(const FunctionBase& function, Op& op) {
  const ScopedPolicy::Frame* scope = thread_state.scope;
  const Snapshot& plain = build_plain(function, op, layers_.together(nullptr, scope));
  const std::vector<const ConfigRule*> rules = layers_.rules_for(op.name);
  if (rules.empty()) return plain;
  auto kept = std::make_unique<KeptRules>(KeptRules{&plain, {}, {}, nullptr, nullptr});
  std::vector<const Condition*> conditions;
  for (const ConfigRule* rule : rules) {
    kept->by_rule.push_back(&build_plain(function, op, layers_.together(rule, scope)));
    kept->conditions.push_back(rule->when ? rule->when->text() : "");
    conditions.push_back(rule->when ? &*rule->when : nullptr);
  }
  for (const auto& known : rule_snapshots_) {
    if (known->plain == kept->plain && known->by_rule == kept->by_rule &&
        known->conditions == kept->conditions)
      return *known->snapshot;
  }
  kept->decision = std::make_unique<Decision>(conditions, function.description().arguments);
  kept->snapshot = std::make_unique<Snapshot>(plain);
  kept->snapshot->decision = kept->decision.get();
  kept->snapshot->by_rule = kept->by_rule.data();
  kept->snapshot->only_original = false;
  rule_snapshots_.push_back(std::move(kept));
  return *rule_snapshots_.back()->snapshot;
}

const Snapshot& Registry::snapshot(const FunctionBase& function) {
  Lock lock(mutex_);
  ensure_environment();
  load(lock, function.op());
  const Snapshot& snapshot = build(function, ops_.find(function.op())->second);
  // What code of a backend that is being loaded sees is for itself.
  if (thread_state.scope == nullptr && is_loaded(function.op()))
    function.snapshot_.store(&snapshot, std::memory_order_release);
  return snapshot;
}

Registry::Lineup Registry::lineup(const FunctionBase& function, const void* args) {
  Lock lock(mutex_);
  ensure_environment();
  load(lock, function.op());
  Op& op = ops_.find(function.op())->second;
  const Snapshot& snapshot = build(function, op);
  const int holds = snapshot.decision == nullptr ? -1 : snapshot.decision->first(args);
  const ConfigRule* rule = holds < 0 ? nullptr : layers_.rules_for(op.name)[static_cast<std::size_t>(holds)];
  Lineup found{layers_.together(rule, thread_state.scope), "", {}};
  if (rule != nullptr) found.rule = layers_.file->path + ":" + std::to_string(rule->line);
  const bool turns_away = (holds < 0 ? snapshot : *snapshot.by_rule[holds]).fall_back;
  for (Entry* entry : asking_order(op, found.policy)) {
    const Slot* slot = entry->slot(function.name());
    const Breaker* breaker = turns_away ? entry->pair(op.name, function.name()).breaker : nullptr;
    found.candidates.push_back({entry, standing(op, *entry, function.name(), found.policy), slot, breaker});
  }
  return found;
}

std::vector<OpStatus> Registry::status() {
  Lock lock(mutex_);
  ensure_environment();
  std::vector<std::string> known = Plugins::instance().ops();
  for (const auto& [name, op] : ops_) known.push_back(name);
  for (const std::string& name : known) load(lock, name);
  load_known(lock);  // those that plugins brought
  std::vector<OpStatus> found;
  for (auto& [name, op] : ops_) {
    OpStatus status{.name = name,
                    .functions = {},
                    .arguments = op.functions.front()->description().arguments,
                    .tables = {},
                    .backends = {}};
    for (const FunctionBase* function : op.functions) {
      status.functions.emplace_back(function->name());
      status.tables.push_back(function->description().arguments);
    }
    const Policy policy = layers_.together(nullptr, thread_state.scope);
    for (const Entry* entry : op.entries) {
      BackendStatus row{.info = entry->info,
                        .origin = entry->origin,
                        .functions = {},
                        .available = entry->availability.available,
                        .reason = entry->availability.reason,
                        .variables = {}};
      for (const Slot& slot : entry->slots) {
        if (slot.run != nullptr) row.functions.emplace_back(slot.function);
      }
      const Standing where = standing_by_policy(op, *entry, policy);
      row.enabled = where.state.empty();
      if (!row.enabled && row.available) row.reason = where.reason;
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

}  // namespace fla::dispatch
