#pragma once

#include <functional>
#include <span>
#include <vector>

#include "fla/core/environment.h"

namespace fla {

/// A part of the library that has variables of its own. Such an object registers them when it is made: a
/// static one, beside the code that obeys them.
class EnvironmentUser {
 public:
  using Apply = std::function<void()>;
  /// Reads what the variables say now. Throws ConfigError, and changes nothing: what it returns does.
  using Read = Apply (*)();
  /// Documents list variables by their users' places.
  enum class Place { dispatch, ops, core };

  /// read: null where somebody else reads the variables.
  EnvironmentUser(Place place, std::span<const Variable> variables, Read read);
};

/// What all users read now, to be applied. Throws ConfigError.
std::vector<EnvironmentUser::Apply> read_environment_users();

}  // namespace fla
