#pragma once

#include <functional>
#include <string>

#include "tools/conformance/searched_op.h"

namespace fla::conformance {

/// Whether the library itself takes the call, whatever a backend says.
bool is_valid(const SearchedOp& op, const MadeCall& call);

/// The call in one line, and the target in a word or two, for messages.
std::string describe(const MadeCall& call);
std::string describe(const Target& target);

/// Tries calls on one target, and counts them in a report.
class Trial {
 public:
  enum class Outcome { invalid, refused, right, wrong };

  Trial(const SearchedOp& op, const Target& target, Report& report)
      : op_(op), target_(target), report_(report) {}

  /// Makes the call, lets `change` have it, asks, runs and compares.
  Outcome operator()(
      const CallForm& form, const std::function<void(MadeCall&)>& change = [](MadeCall&) {});

  const std::string& reason() const { return reason_; }  ///< of the last refusal
  const std::string& wrong() const { return wrong_; }    ///< about the last call

  /// The inputs whose contents make no difference to the result of a call.
  std::string ignored(const CallForm& form);

 private:
  std::string wrong_about(const MadeCall& call);

  const SearchedOp& op_;
  const Target& target_;
  Report& report_;
  std::string reason_, wrong_;
};

}  // namespace fla::conformance
