#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/dispatch.h"
#include "fla/dispatch/policy.h"
#include "fla/dispatch/registry.h"

/// The registry's inside; not installed.
namespace fla::dispatch {

/// A backend of an op. Never freed: calls may be inside it.
struct Entry {
  std::uint64_t id = 0;
  std::string name;
  std::unique_ptr<BaseBackend> backend;  ///< null when it could not be made
  BackendInfo info;
  std::vector<Slot> slots;
  Availability availability;
  std::map<std::string, std::uint32_t, std::less<>> counters;  ///< by function

  const Slot* slot(std::string_view function) const;
};

struct Op {
  std::string name;
  std::vector<const FunctionBase*> functions;
  std::vector<Entry*> entries;  ///< in ascending priority, ties by name
  bool loaded = false;
  std::uint64_t version = 0;  ///< grows whenever `entries` changes
};

/// Where a backend stands before its verifier is asked; no state means that it is a candidate.
struct Standing {
  std::string state;
  std::string reason;
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

  const Snapshot& snapshot(const FunctionBase& function);

  /// The function of that name. Throws InvalidArgument.
  const FunctionBase& function(std::string_view op, std::string_view name);

  /// Everybody whom a call of the function could go to on this thread, in the order of asking.
  struct Candidacy {
    const Entry* entry;
    Standing standing;
    Verdict (*verify)(const BaseBackend&, const void*);
  };
  struct Lineup {
    Policy policy;
    std::vector<Candidacy> candidates;
  };
  Lineup lineup(const FunctionBase& function);

  std::vector<OpStatus> status();

  /// Grows whenever a snapshot may have become stale.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  Registry();

  Op& op_named(std::string_view name);
  void load(Op& op);
  void insert(Op& op, std::unique_ptr<Entry> entry);
  void ensure_environment();
  void make_stale();
  Policy in_force() const;
  /// What the backend's own variable says. Throws ConfigError.
  std::optional<bool> toggle(const BackendInfo& info) const;
  std::map<std::string, bool> toggles(const Op& op) const;
  std::vector<const Entry*> asking_order(const Op& op, const Policy& policy) const;
  Standing standing(const Op& op, const Entry& entry, std::string_view function, const Policy& policy) const;
  const Snapshot& build(const FunctionBase& function, const Op& op, const Policy& policy);
  std::vector<std::string> backend_names(std::string_view op) const;
  void check_names(const Policy& policy, bool from_environment) const;
  static void check_sense(const Policy& policy);

  struct Kept {
    const FunctionBase* function;
    std::uint64_t version;
    Policy policy;
    std::unique_ptr<Snapshot> snapshot;
    std::vector<Candidate> candidates;
  };

  std::mutex mutex_;
  std::atomic<std::uint64_t> generation_{1};
  std::map<std::string, Op, std::less<>> ops_;
  std::vector<Recipe> recipes_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::unique_ptr<Kept>> snapshots_;
  std::uint64_t last_id_ = 0;

  bool environment_read_ = false;
  std::map<std::string, std::string> variables_;  // FLA_* as they were when the environment was read
  Policy environment_, program_;
};

/// The settings that the environment holds, toggles of backends left out. Throws ConfigError.
Policy policy_from(const std::map<std::string, std::string>& variables);

/// `upper` on top of `lower`.
Policy merge(Policy lower, const Policy& upper);

/// Counters are named once, when a pair of function and backend first exists.
std::uint32_t new_counter(std::string_view op, std::string_view function, std::string_view backend);

}  // namespace fla::dispatch

struct fla::ScopedPolicy::Frame {
  Frame* parent;
  Policy policy;
  struct Known {
    const dispatch::FunctionBase* function;
    std::uint64_t generation;
    const dispatch::Snapshot* snapshot;
  };
  std::vector<Known> known;
};
