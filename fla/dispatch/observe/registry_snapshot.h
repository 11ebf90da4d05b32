#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fla/core/export.h"
#include "fla/dispatch/failure/breaker.h"
#include "fla/dispatch/plugins/plugin.h"
#include "fla/dispatch/settings/policy.h"

namespace fla {

/// Everything that the dispatch knows at one moment.
struct RegistrySnapshot {
  struct FunctionBreaker {
    std::string function;
    BreakerState state = BreakerState::closed;
    int failures = 0;
    std::string reason;  ///< empty when closed
  };

  struct Backend {
    std::string name, package, env_var, doc;
    int priority = 0;
    bool default_enable = true;
    std::string origin;                  ///< "linked in", "program", or its plugin's file; of original: "op"
    std::vector<std::string> functions;  ///< those that it implements
    std::string state;                   ///< enabled, disabled, denied or unavailable
    std::string reason;                  ///< empty when enabled
    std::vector<FunctionBreaker> breakers;  ///< one for each of `functions`
  };

  struct Op {
    std::string name;
    std::vector<std::string> functions;
    std::vector<Backend> backends;  ///< in ascending priority
    Backend original{};             ///< the original kernels, which are asked last; they have no breakers
  };

  std::uint64_t generation = 0;  ///< grows whenever settings, backends or plugins change
  Policy policy;                 ///< in force on the calling thread, the config file's rules left out
  std::string config_path;       ///< empty: there is no config file
  std::size_t config_rules = 0;
  std::vector<Op> ops;  ///< in alphabetical order
  std::vector<PluginStatus> plugins;

  FLA_API std::string text() const;
  FLA_API std::string json() const;  ///< one line; fields may be added, not renamed
};

/// Taken under one lock: nothing in it is older or newer than the rest. Makes the backends that are linked
/// in, but loads no plugin: those whose ops have not been called yet are in `plugins` alone, as "found".
/// Throws ConfigError when the environment is wrong.
FLA_API RegistrySnapshot registry_snapshot();

}  // namespace fla
