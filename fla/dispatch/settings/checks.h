#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/dispatch/settings/policy.h"

/// What settings may say; not installed.
namespace fla::dispatch {

/// The largest values of the breakers' settings.
inline constexpr int kMostBreakerFailures = 1'000'000;
inline constexpr int kMostBreakerMs = 86'400'000;

/// Every op, backend and table of arguments that settings may speak of.
struct KnownNames {
  struct Op {
    std::vector<std::string> backends;
    std::vector<ArgumentTable> tables;  ///< one a function
    /// Whether that is all. Where plugins that are not loaded yet may add to it, an unknown name is no error.
    bool complete = true;
  };
  std::map<std::string, Op> ops;
  bool complete = true;  ///< whether those are all ops
};

/// What is wrong with a setting that names a backend of an op; empty when there is such a one, or may be. No
/// op: a backend of any; no backend: the op alone. `hint` ends the sentence: it gets the name and those that
/// are known.
std::string unknown_name(const std::string& setting, const std::optional<std::string>& op,
                         const std::optional<std::string>& backend, const KnownNames& known,
                         std::string (*hint)(std::string_view name, const std::vector<std::string>& known));

/// Throws ConfigError for an op or a backend that cannot exist, and for numbers out of range; settings are
/// called by their variables or by Policy's fields.
enum class SetBy { environment, program };
void check_names(const Policy& policy, SetBy by, const KnownNames& known);

/// "a, b, c", or "none".
std::string joined(const std::vector<std::string>& names);

}  // namespace fla::dispatch
