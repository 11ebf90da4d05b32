#include <algorithm>

#include "fla/dispatch/registry/registry_state.h"

/// Who is asked: the registry's answer for a function under the settings of a thread.
namespace fla::dispatch {
namespace {

/// Whether a list of "backend" and "op.backend" names this backend of this op.
bool is_named(const std::vector<std::string>& list, const std::string& op, const std::string& backend) {
  return std::ranges::any_of(
      list, [&](const std::string& item) { return item == backend || item == op + "." + backend; });
}

BreakerSettings breaker_settings(const Policy& policy) {
  BreakerSettings settings;
  settings.threshold = policy.breaker_threshold.value_or(settings.threshold);
  settings.window_ms = policy.breaker_window_ms.value_or(settings.window_ms);
  settings.cool_down_ms = policy.breaker_cool_down_ms.value_or(settings.cool_down_ms);
  return settings;
}

}  // namespace

Standing standing_by_require(const Policy& policy, const std::string& op, std::string_view name) {
  const auto required = policy.require.find(op);
  if (required == policy.require.end() || required->second == name) return {};
  return {"denied", required->second + " is required for " + op};
}

std::vector<std::shared_ptr<Entry>> Registry::asking_order(const Op& op, const Policy& policy) const {
  std::vector<std::shared_ptr<Entry>> entries = op.entries;
  for (const auto* sequences : {&policy.order, &policy.prefer}) {  // the later one has the greater weight
    const auto sequence = sequences->find(op.name);
    if (sequence == sequences->end()) continue;
    const std::vector<std::string>& names = sequence->second;
    std::ranges::stable_sort(entries, {}, [&](const auto& entry) {
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
  return standing_by_require(policy, op.name, entry.name);
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

std::shared_ptr<const void> owner_of(const Snapshot& snapshot, const Candidate& candidate) {
  return static_cast<const OwningSnapshot&>(snapshot)
      .entries[static_cast<std::size_t>(&candidate - snapshot.begin)];
}

Candidate Registry::candidate_of(const Op& op, Entry& entry, std::string_view function) {
  const Slot& slot = *entry.slot(function);
  const Entry::Pair& pair = entry.pair(op.name, function);
  return {slot.verify, slot.run, entry.backend.get(), pair.breaker.get(), pair.counter};
}

Registry::Shared Registry::build_plain(const FunctionBase& function, Op& op, const Policy& policy) {
  PlainKey key{&function, traced_, policy};
  if (const Shared* known = plain_.find(key)) return *known;
  const auto made = std::make_shared<OwningSnapshot>();
  OwningSnapshot& snapshot = *made;
  snapshot.original_counter = new_counter(op.name, function.name(), kOriginalKernel.name);
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
  for (const std::shared_ptr<Entry>& entry : asking_order(op, policy)) {
    const Standing where = standing(op, *entry, function.name(), policy);
    if (entry->name == snapshot.required) {
      snapshot.required_out = where.state.empty() ? "" : "is " + where.state + ": " + where.reason;
    }
    if (!where.state.empty() || policy.disable_dispatch.value_or(false)) continue;
    snapshot.candidates.push_back(candidate_of(op, *entry, function.name()));
    snapshot.entries.push_back(entry);
  }
  snapshot.begin = snapshot.candidates.data();
  snapshot.end = snapshot.begin + snapshot.candidates.size();
  snapshot.only_original = snapshot.begin == snapshot.end && !snapshot.must_take && !traced_;
  plain_.add(std::move(key), made, [this](Shared gone) { drop(std::move(gone)); });
  return made;
}

Registry::Shared Registry::build_ruled(const Shared& plain, std::vector<Shared> under_rules,
                                       std::shared_ptr<const Decision> decision) {
  RuledKey key{plain.get(), {}, decision.get()};
  for (const Shared& snapshot : under_rules) key.under_rules.push_back(snapshot.get());
  if (const Shared* known = ruled_.find(key)) return *known;
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
  ruled_.add(std::move(key), made, [this](Shared gone) { drop(std::move(gone)); });
  return made;
}

Registry::Shared Registry::build(const FunctionBase& function, Op& op) {
  const ScopedPolicy::Frame* scope = thread_state.scope;
  const Shared plain = build_plain(function, op, layers_.together(nullptr, scope));
  const std::vector<const ConfigRule*> rules = layers_.rules_for(op.name);
  if (rules.empty()) return plain;
  std::vector<Shared> under_rules;
  for (const ConfigRule* rule : rules)
    under_rules.push_back(build_plain(function, op, layers_.together(rule, scope)));
  return build_ruled(plain, std::move(under_rules),
                     layers_.file->decision(op.name, function.description().arguments));
}

std::shared_ptr<const Snapshot> Registry::snapshot(const FunctionBase& function) {
  if (thread_state.scope == nullptr) {
    const std::lock_guard lock(in_force_mutex_);
    if (const auto known = in_force_.find(&function); known != in_force_.end()) return known->second;
  }
  Lock lock(*this);
  ensure_environment();
  load(lock, function.op());
  Shared snapshot = build(function, ops_.find(function.op())->second);
  // What code of a backend that is being loaded sees is for itself.
  if (thread_state.scope == nullptr && is_loaded(function.op())) {
    const std::lock_guard in_force(in_force_mutex_);
    Shared& mine = in_force_[&function];
    if (mine != nullptr) drop(std::move(mine));
    mine = snapshot;
    function.snapshot_.store(snapshot.get(), std::memory_order_release);
    function.only_original_.store(snapshot->only_original ? snapshot->original_counter + 1 : 0,
                                  std::memory_order_relaxed);
  }
  return snapshot;
}

Registry::Lineup Registry::lineup(const FunctionBase& function, const void* args) {
  Lock lock(*this);
  ensure_environment();
  load(lock, function.op());
  Op& op = ops_.find(function.op())->second;
  const Shared snapshot = build(function, op);
  const int holds = snapshot->decision == nullptr ? -1 : snapshot->decision->first(args);
  const ConfigRule* rule = holds < 0 ? nullptr : layers_.rules_for(op.name)[static_cast<std::size_t>(holds)];
  Lineup found{layers_.together(rule, thread_state.scope), "", snapshot, {}};
  if (rule != nullptr) {
    found.rule = layers_.file->path + ":" + std::to_string(rule->line);
    found.snapshot = Shared(snapshot, snapshot->by_rule[holds]);
  }
  for (const std::shared_ptr<Entry>& entry : asking_order(op, found.policy)) {
    Candidacy candidacy{entry, standing(op, *entry, function.name(), found.policy), std::nullopt};
    if (candidacy.standing.state.empty()) candidacy.candidate = candidate_of(op, *entry, function.name());
    found.candidates.push_back(std::move(candidacy));
  }
  return found;
}

std::vector<OpStatus> Registry::status() {
  Lock lock(*this);
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
                    .backends = {},
                    .original = {}};
    for (const FunctionBase* function : op.functions) {
      status.functions.emplace_back(function->name());
      status.tables.push_back(function->description().arguments);
    }
    const Policy policy = layers_.together(nullptr, thread_state.scope);
    for (const auto& entry : op.entries) {
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
    const Standing original = standing_by_require(policy, name, kOriginalKernel.name);
    status.original = {.info = kOriginalKernel,
                       .origin = "",
                       .functions = status.functions,
                       .enabled = original.state.empty(),
                       .reason = original.reason,
                       .variables = {}};
    found.push_back(std::move(status));
  }
  return found;
}

}  // namespace fla::dispatch
