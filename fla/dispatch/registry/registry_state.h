#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fla/core/recent.h"
#include "fla/dispatch/call/counter_table.h"
#include "fla/dispatch/call/dispatch.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/observe/registry_snapshot.h"
#include "fla/dispatch/plugins/plugin_loader.h"
#include "fla/dispatch/registry/loading.h"
#include "fla/dispatch/rules/condition.h"
#include "fla/dispatch/settings/checks.h"
#include "fla/dispatch/settings/layers.h"
#include "fla/dispatch/settings/policy.h"

/// The registry's inside; not installed.
namespace fla::dispatch {

/// A backend of an op. Those that may call it, by a snapshot or a plan, keep it alive.
struct Entry {
  Entry() = default;
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry();

  std::uint64_t id = 0;
  std::string name;
  std::string origin;                    ///< the plugin's file, "program", or empty: linked in
  std::unique_ptr<BaseBackend> backend;  ///< null when it could not be made
  BackendInfo info;
  std::vector<Slot> slots;
  Availability availability;

  struct Pair {
    std::uint32_t counter;
    std::shared_ptr<Breaker> breaker;
  };
  std::map<std::string, Pair, std::less<>> pairs;  ///< by function

  const Slot* slot(std::string_view function) const;
  const Pair& pair(std::string_view op, std::string_view function);
  /// Makes the pair if the backend has the function: what it lacks is not counted.
  void add_pair(std::string_view op, std::string_view function);
};

struct Op {
  std::string name;
  std::vector<const FunctionBase*> functions;
  std::vector<std::shared_ptr<Entry>> entries;  ///< in ascending priority, ties by name
  bool loaded = false;
  bool wanted = false;  ///< it has been loaded once: what comes later is loaded at once
};

/// A snapshot with what it points to. All snapshots are of this type.
struct OwningSnapshot : Snapshot {
  std::vector<Candidate> candidates;
  std::vector<std::shared_ptr<Entry>> entries;  ///< whose candidates they are, in their order
  std::shared_ptr<const Decision> rules;
  std::vector<std::shared_ptr<const Snapshot>> under_rules;
  std::vector<const Snapshot*> under_rules_view;
};

/// What keeps the backend of a snapshot's candidate alive.
std::shared_ptr<const void> owner_of(const Snapshot& snapshot, const Candidate& candidate);

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

/// Where a backend stands before its verifier is asked; no state means that it is a candidate.
struct Standing {
  std::string state;
  std::string reason;
};

/// Denied when another of the op is required.
Standing standing_by_require(const Policy& policy, const std::string& op, std::string_view name);

/// What a plugin's library brings by itself when it is opened: while one of these is on the thread, static
/// registrations go into it instead of the registry.
struct Collected {
  std::vector<Recipe> recipes;
  std::vector<const FunctionBase*> functions;
};
class Collecting {
 public:
  explicit Collecting(Collected& into);
  ~Collecting();
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
};

class Registry {
 public:
  static Registry& instance();

  void add_function(const FunctionBase& function);
  void add_recipe(const Recipe& recipe);
  std::uint64_t add_backend(std::string_view op, std::unique_ptr<BaseBackend> backend,
                            std::vector<Slot> slots);
  void remove_backend(std::uint64_t id);

  void set_policy(const Policy& policy);
  void reload_environment();
  /// Throws ConfigError unless the policy could stand on top of what is in force on this thread.
  void check_scoped(const Policy& policy);
  Policy policy();

  /// Every op and backend that a setting may name.
  KnownNames known_names();
  /// Takes the place of the whole config file that is in force; says no, and changes nothing, when there is
  /// none any more or one that was read later. Throws ConfigError, and changes nothing, when it contradicts
  /// what else is set. Names were checked when the generation was `checked`.
  bool set_configuration(std::shared_ptr<const Configuration> configuration, std::uint64_t checked);
  std::shared_ptr<const Configuration> configuration();

  std::shared_ptr<const Snapshot> snapshot(const FunctionBase& function);

  /// The function of that name; a plugin that may have it is loaded. Throws InvalidArgument.
  const FunctionBase& function(std::string_view op, std::string_view name);

  /// The op's backends that are available, whatever the settings say of them, and its functions.
  struct Available {
    std::vector<std::shared_ptr<const Entry>> entries;
    std::vector<const FunctionBase*> functions;
  };
  Available available(std::string_view op);

  /// Loads what serves the op, if the op has been called before: for a plugin that came later.
  void load_again(std::string_view op);

  /// Everybody whom this call of the function could go to on this thread, in the order of asking.
  struct Candidacy {
    std::shared_ptr<const Entry> entry;  ///< keeps what the candidate points to alive
    Standing standing;
    std::optional<Candidate> candidate;  ///< where nothing stands in the way
  };
  struct Lineup {
    Policy policy;
    std::string rule;                          ///< FILE:LINE of the rule that holds for the call, if one does
    std::shared_ptr<const Snapshot> snapshot;  ///< that of the rule
    std::vector<Candidacy> candidates;
  };
  Lineup lineup(const FunctionBase& function, const void* args);

  std::vector<OpStatus> status();
  RegistrySnapshot everything();

  /// Grows whenever a snapshot may have become stale.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  Registry();

  /// The registry's mutex. What was dropped meanwhile is freed after it is unlocked: the destructor of a
  /// backend may call the library.
  class Lock {
   public:
    explicit Lock(Registry& registry) : registry_(registry), lock_(registry.mutex_) {}
    ~Lock() { unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    void lock() { lock_.lock(); }
    void unlock() {
      if (!lock_.owns_lock()) return;
      const auto dropped = std::exchange(registry_.dropped_, {});
      lock_.unlock();
    }

   private:
    Registry& registry_;
    std::unique_lock<std::mutex> lock_;
  };
  void drop(std::shared_ptr<const void> what) { dropped_.push_back(std::move(what)); }

  // ---- ops and backends (registry.cpp)
  Op& op_named(std::string_view name);
  void insert(const FunctionBase& function);
  /// Whether the op's backends, those of plugins included, are all that there are.
  bool is_loaded(std::string_view op) const;
  /// Loads them. The lock is released meanwhile: code of others runs, which may call fla. Where such code is
  /// what calls, nothing is loaded.
  void load(Lock& lock, std::string_view op);
  /// The same of every op, without plugins.
  void load_known(Lock& lock);
  void load_plugins(std::string_view op);
  void load_recipes(Lock& lock, std::string_view op);
  /// Throws ConfigError unless a program may add such a backend.
  void check_new(std::string_view op, std::string_view backend, const std::vector<Slot>& slots);
  std::string admit(const Arrival& arrival, std::string_view op);
  std::string objection_to(const Arrival& arrival) const;
  std::shared_ptr<Entry> make_entry(const Recipe& recipe, const std::string& origin);
  void insert(Op& op, std::shared_ptr<Entry> entry);
  /// Forgets the snapshots of an op whose backends are others now.
  void forget_snapshots(const Op& op);
  void make_stale();

  // ---- settings (settings.cpp)
  void ensure_environment();
  void read_environment();
  void load_named(Lock& lock, const Policy& policy);
  /// What the backend's own variable says. Throws ConfigError.
  std::optional<bool> toggle(const BackendInfo& info) const;
  KnownNames names() const;
  void check_loaded();
  /// Says once of each variable that nobody reads what it may be meant to be. The lock is released meanwhile.
  void tell_of_unknown_variables(Lock& lock);

  // ---- who is asked (snapshots.cpp)
  std::vector<std::shared_ptr<Entry>> asking_order(const Op& op, const Policy& policy) const;
  Standing standing(const Op& op, const Entry& entry, std::string_view function, const Policy& policy) const;
  /// Disabled, denied or neither, whether the backend is there or not.
  Standing standing_by_policy(const Op& op, const Entry& entry, const Policy& policy) const;
  static Candidate candidate_of(const Op& op, Entry& entry, std::string_view function);
  using Shared = std::shared_ptr<const Snapshot>;
  Shared build(const FunctionBase& function, Op& op);
  Shared build_plain(const FunctionBase& function, Op& op, const Policy& policy);
  Shared build_ruled(const Shared& plain, std::vector<Shared> under_rules,
                     std::shared_ptr<const Decision> decision);

  struct KnownRecipe {
    Recipe recipe;
    std::string origin;
  };
  Loading loading_;
  std::mutex mutex_;
  std::atomic<std::uint64_t> generation_{1};
  std::map<std::string, Op, std::less<>> ops_;
  std::vector<KnownRecipe> recipes_;
  std::uint64_t last_id_ = 0;
  // Settings come back, those of a ScopedPolicy above all: what was made for the last ones is kept.
  Recent<PlainKey, Shared> plain_{1024};
  Recent<RuledKey, Shared> ruled_{64};
  std::vector<std::shared_ptr<const void>> dropped_;  // to be freed when mutex_ is unlocked

  std::mutex in_force_mutex_;  // held for a moment, inside mutex_ or alone: a thread's first call waits for
                               // nothing else
  std::map<const FunctionBase*, Shared> in_force_;  // those that FunctionBase::snapshot_ points to

  bool environment_read_ = false;
  std::map<std::string, std::string> variables_;  // FLA_* as they were when the environment was read
  std::set<std::string> told_variables_;          // those that nobody reads
  bool traced_ = false;
  Layers layers_;
};

}  // namespace fla::dispatch
