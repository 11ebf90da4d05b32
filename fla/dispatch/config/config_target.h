#pragma once

#include <cstdint>
#include <memory>

#include "fla/dispatch/settings/checks.h"
#include "fla/dispatch/settings/configuration.h"

/// What a config file is put into; not installed.
namespace fla::dispatch {

/// What the reading and watching of config files asks of the rooms above it.
struct ConfigTarget {
  /// The file that is in force, or null. Throws ConfigError when the environment is wrong.
  std::shared_ptr<const Configuration> (*in_force)() = nullptr;
  /// Grows whenever backends or settings change.
  std::uint64_t (*generation)() = nullptr;
  KnownNames (*known_names)() = nullptr;
  /// Takes the place of the whole file that is in force; says no, and changes nothing, when there is none any
  /// more or one that was read later. Throws ConfigError, and changes nothing, when it contradicts what else
  /// is set. Names were checked when the generation was `checked`.
  bool (*replace)(std::shared_ptr<const Configuration> next, std::uint64_t checked) = nullptr;
  /// Loads all plugins, so that their names are known. Throws ConfigError when the environment is wrong.
  void (*load_all)() = nullptr;
};

/// Says who answers, while the library is being loaded.
void connect(const ConfigTarget& target);
const ConfigTarget& config_target();

}  // namespace fla::dispatch
