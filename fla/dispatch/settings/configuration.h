#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/dispatch/rules/condition.h"
#include "fla/dispatch/settings/checks.h"
#include "fla/dispatch/settings/policy.h"

/// What a config file says; not installed. fla/dispatch/config/config_file.h reads one.
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
  /// plugin brings later it is left to the first call. Once the file is in force, the dispatch's lock must be
  /// held.
  std::shared_ptr<const Decision> decision(std::string_view op, ArgumentTable table) const;
  void compile(const KnownNames& known) const;

  struct Compiled {
    std::string op;
    ArgumentTable table;
    std::shared_ptr<const Decision> decision;
  };
  mutable std::vector<Compiled> compiled{};
};

}  // namespace fla::dispatch
