#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/dispatch/rules/condition.h"
#include "fla/dispatch/settings/policy.h"

/// The config file: TOML whose keys are the fields of Policy, and rules. Not installed;
/// fla/dispatch/config/config.h says what may stand in it.
namespace fla::dispatch {

/// Settings of one op, for the calls that meet a condition.
struct ConfigRule {
  std::string op;
  std::optional<Condition> when;  ///< none: every call
  Policy policy;
  int line = 0;
  int when_line = 0;
};

/// A file that was read. Immutable once it is in force.
struct Configuration {
  std::string path;      ///< as it was given, for messages
  std::string file;      ///< absolute
  std::string text;      ///< what stands in it
  std::string named_by;  ///< what messages begin with: "FLA_CONFIG: ", or nothing
  /// Numbers the readings of a process: of two, the one with the greater number saw the file later.
  std::uint64_t reading = 0;

  Policy policy;
  std::vector<ConfigRule> rules;

  /// The names of ops and backends that it uses, to be held against those that exist.
  struct Mention {
    std::string setting;
    std::optional<std::string> op;       ///< none: the backend may be any op's
    std::optional<std::string> backend;  ///< none: the op alone
    int line = 0;
  };
  std::vector<Mention> mentions;

  /// The rules of an op, worked out for the arguments of one of its functions, once. That takes time:
  /// compile() does it before the file is applied, so that calls find it done; for a function that a
  /// plugin brings later it is left to the first call. Once the file is in force, the registry's lock must be
  /// held.
  std::shared_ptr<const Decision> decision(std::string_view op, ArgumentTable table) const;
  void compile(const struct KnownNames& known) const;

  struct Compiled {
    std::string op;
    ArgumentTable table;
    std::shared_ptr<const Decision> decision;
  };
  mutable std::vector<Compiled> compiled{};
};

/// Reads a text; `path` is for messages. Throws ConfigError "PATH:LINE: …" about the first line that is
/// wrong. Which ops and backends exist is not looked at.
FLA_API Configuration parse_configuration(std::string_view text, const std::string& path);

/// The same of a file, which messages call `shown`. Throws ConfigError, too, when there is none, or it is
/// larger than 1 MiB.
FLA_API Configuration read_configuration(const std::string& path, const std::string& shown);
inline Configuration read_configuration(const std::string& path) { return read_configuration(path, path); }

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

/// Throws ConfigError "PATH:LINE: …", with a suggestion, for a name that does not exist or a condition that
/// makes no sense for any function of its op.
FLA_API void check_names(const Configuration& configuration, const KnownNames& known);

}  // namespace fla::dispatch
