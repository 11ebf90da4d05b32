#pragma once

#include <string>

#include "fla/dispatch/observe/explain.h"
#include "tests/dispatch/mix.h"

namespace fla_test {

/// The row of that backend; a row with the state "absent" when there is none.
inline fla::Explanation::Row row_of(const std::string& backend, const fla::Explanation& explanation) {
  for (const fla::Explanation::Row& row : explanation.rows) {
    if (row.name == backend) return row;
  }
  return {.name = backend, .priority = 0, .state = "absent", .reason = {}, .place = {}, .route = {}};
}

inline fla::Explanation::Row row_of(const std::string& backend, const MixArgs& args = {}) {
  return row_of(backend, fla::explain("mix", "mix_chunk", args));
}

/// "state: reason"
inline std::string standing_of(const std::string& backend, const MixArgs& args = {}) {
  const fla::Explanation::Row row = row_of(backend, args);
  return row.reason.empty() ? row.state : row.state + ": " + row.reason;
}

}  // namespace fla_test
