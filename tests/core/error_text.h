#pragma once

#include <string>

namespace fla_test {

/// The message of the Error that body() throws; "nothing was thrown" otherwise. Other exceptions pass
/// through.
template <class Error, class Body>
std::string error_text(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace fla_test
