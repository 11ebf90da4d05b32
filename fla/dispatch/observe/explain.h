#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fla/core/export.h"
#include "fla/dispatch/choice/named_function.h"

namespace fla {

/// What would become of a call, and why.
struct Explanation {
  struct Row {
    std::string name{};
    int priority = 0;
    /// unavailable, disabled, denied, not_implemented, refused, failed (the verifier threw), open (it
    /// failed too often: fla/dispatch/failure/breaker.h), accepted (somebody before it takes the call) or
    /// selected
    std::string state{};
    std::string reason{};
    std::string place{};     ///< of a refusal: file:line of the verifier
    std::string route{};     ///< which way it would run a call that it takes, if it says so
    bool preferred = false;  ///< asked before the others because Policy::prefer names it
  };

  std::string op, function;
  bool dispatch_enabled = true;
  std::string rule;  ///< FILE:LINE of the config file's rule that holds for this call, if one does
  std::string
      selected;  ///< a backend, "original", or empty when the call would throw; then `error` says what
  std::string error;
  std::vector<Row> rows;  ///< in the order in which backends are asked
  /// The original kernel, which is asked last: selected, accepted, or denied when a backend is required. JSON
  /// has it as the last of the backends.
  Row original{};

  FLA_API std::string text() const;
  FLA_API std::string json() const;  ///< one line
};

namespace dispatch {
FLA_API Explanation explain(const FunctionBase& function, const void* args);
}

/// Who would take this call on this thread now, who would not, and why. A function that is called like its op
/// is the op's front door and stands for the function that it would pick. Runs no kernel, touches no data,
/// counts and logs nothing. Throws InvalidArgument for an op or function that does not exist, or for
/// arguments that a call would refuse.
template <class Args>
Explanation explain(std::string_view op, std::string_view function, const Args& args) {
  return dispatch::explain(dispatch::function_named(op, function, dispatch::call_type(args)), &args);
}

}  // namespace fla
