#pragma once

#include <functional>
#include <span>
#include <vector>

#include "fla/core/environment.h"

namespace fla {

/// Registers the environment variables of a part of the library, and how they are read. One static object
/// stands beside the code that obeys the variables.
class EnvironmentUser {
 public:
  using Apply = std::function<void()>;
  /// Reads the variables. Changes nothing, also when it throws ConfigError; the returned function applies
  /// them.
  using Read = Apply (*)();
  /// Documents list the variables in this order.
  enum class Place { dispatch, ops, core };

  /// read: null for variables that are read elsewhere.
  EnvironmentUser(Place place, std::span<const Variable> variables, Read read);
};

/// Reads the variables of all users; the returned functions apply them. Throws ConfigError.
std::vector<EnvironmentUser::Apply> read_environment_users();

}  // namespace fla
