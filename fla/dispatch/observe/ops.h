#pragma once

#include <string>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/environment.h"
#include "fla/core/export.h"
#include "fla/dispatch/backend/backend.h"

namespace fla {

/// What the registry knows about a backend of an op, under the policy in force.
struct BackendStatus {
  BackendInfo info;
  std::string origin;                  ///< its plugin's file, "program", or empty: linked in
  std::vector<std::string> functions;  ///< those that it implements
  bool enabled = true;
  bool available = true;
  std::string reason;  ///< why it is not available, or not enabled
  std::vector<Variable> variables;
};

struct OpStatus {
  std::string name;
  std::vector<std::string> functions;
  ArgumentTable arguments;              ///< of the first function; of all, in most ops
  std::vector<ArgumentTable> tables;    ///< one a function, in their order
  std::vector<BackendStatus> backends;  ///< in ascending priority
  BackendStatus original;               ///< the original kernels, which are asked last
};

/// Every op of the process, in alphabetical order, its backends loaded.
FLA_API std::vector<OpStatus> ops();

}  // namespace fla
