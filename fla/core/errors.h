#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "fla/core/export.h"

namespace fla {

/// Base of everything the library throws.
class FLA_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument of a call is wrong. Nothing has run and nothing was written.
class FLA_API InvalidArgument : public Error {
 public:
  /// The message reads "<op>: <argument>: <what was expected, what came>", without an op where the argument
  /// is no op's.
  InvalidArgument(std::string_view argument, std::string_view what, std::string_view op = {});

  const std::string& argument() const { return argument_; }
  /// What was expected, what came.
  const std::string& problem() const { return problem_; }
  /// The op that was called, or empty.
  const std::string& op() const { return op_; }

 private:
  std::string argument_, problem_, op_;
};

/// What `run` returns; an InvalidArgument that it throws names the op.
template <class Run>
auto naming_op(std::string_view op, const Run& run) {
  try {
    return run();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(error.argument(), error.problem(), op);
  }
}

/// A setting (environment variable, policy) is wrong. The settings that were in force stay.
class FLA_API ConfigError : public Error {
 public:
  using Error::Error;
};

/// A backend failed, or the one that was required did not take the call.
class FLA_API BackendError : public Error {
 public:
  /// What the backend knows about the caller's memory at the moment of the failure.
  enum class Wrote { nothing, maybe };

  explicit BackendError(const std::string& what, Wrote wrote = Wrote::maybe) : Error(what), wrote_(wrote) {}

  /// Only a failure that wrote nothing may fall back to another backend.
  Wrote wrote() const { return wrote_; }

 private:
  Wrote wrote_;
};

/// The device is lost to this process: a sticky CUDA error, after which every further call on the context
/// fails. Raised as it is, whatever the settings: nothing is retried, no other backend is asked, and the
/// backend is not tried again until reset_breakers().
class FLA_API DeviceLost : public BackendError {
 public:
  explicit DeviceLost(const std::string& what) : BackendError(what, Wrote::maybe) {}
};

}  // namespace fla
