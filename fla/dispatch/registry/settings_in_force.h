#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/catalog/lock.h"
#include "fla/dispatch/settings/configuration.h"
#include "fla/dispatch/settings/layers.h"

/// The settings that are in force; not installed.
namespace fla::dispatch {

struct SettingsInForce {
  Layers layers;                                 ///< changed by apply alone
  bool traced = false;                           ///< a profiler wants to know who runs
  std::map<std::string, std::string> variables;  ///< FLA_* as they were when the environment was read

  /// Reads the environment, unless that has been done. Throws ConfigError.
  void ensure_read(Lock& lock);
  /// Reads it now. Throws ConfigError, and changes nothing.
  void read(Lock& lock);
  void apply(Layers next);
  /// What the backend's own variable says. Throws ConfigError.
  std::optional<bool> toggle(const BackendInfo& info) const;
  /// Checks names that could not be checked before plugins were loaded. Throws ConfigError.
  void check_loaded(Lock& lock);
  /// Says once of each variable that nobody reads what it may be meant to be. The lock is released meanwhile.
  void tell_of_unknown_variables(Lock& lock);

 private:
  bool is_read_ = false;
  std::set<std::string> told_variables_;  // those that nobody reads
};

/// The process's, for whoever holds the lock.
SettingsInForce& settings_in_force(Lock& lock);

/// What the layers say of Policy::batch_invariant, without a lock; nothing before they were read.
std::optional<bool> batch_invariant_outside_of_scopes();

/// Takes the place of the whole config file that is in force; says no, and changes nothing, when there is
/// none any more or one that was read later. Throws ConfigError, and changes nothing, when it contradicts
/// what else is set. Names were checked when the generation was `checked`.
bool set_configuration(std::shared_ptr<const Configuration> configuration, std::uint64_t checked);

/// The config file that is in force, or null. Throws ConfigError when the environment is wrong.
std::shared_ptr<const Configuration> configuration_in_force();

}  // namespace fla::dispatch
