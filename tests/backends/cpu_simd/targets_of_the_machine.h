#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/ops.h"
#include "tests/core/scoped_environment.h"
#include "tools/cases/random_case.h"

namespace fla_test {

/// What the library says about a target that does not exist: "FLA_CPU_SIMD_TARGET: expected … (NEON), got
/// 'none'".
inline std::string complaint() {
  const fla::cases::KdaCase call = fla::cases::make_kda_case({.T = 1, .H = 1, .K = 4, .V = 4});
  fla::chunk_kda(call.args);  // the backends have to be loaded for their settings to be read
  const ScopedEnvironment wrong({{"FLA_CPU_SIMD_TARGET", "none"}});
  try {
    fla::reload_environment();
  } catch (const fla::ConfigError& error) {
    return error.what();
  }
  return "";
}

/// The targets that this machine has, out of that sentence.
inline std::vector<std::string> targets() {
  const std::string text = complaint();
  const auto begin = text.find('(') + 1, end = text.find(')');
  std::vector<std::string> names;
  std::string name;
  for (const char letter : text.substr(begin, end - begin) + ",") {
    if (letter == ',') names.push_back(std::exchange(name, ""));
    if (letter != ',' && letter != ' ') name += letter;
  }
  return names;
}

}  // namespace fla_test
