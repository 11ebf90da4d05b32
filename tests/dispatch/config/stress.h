#pragma once

#include <cstdint>
#include <functional>

namespace fla_test {

/// Threads that call an op while its config file is rewritten over and over, a third of the times with
/// something that is wrong.
struct Stress {
  int threads = 8;
  int rewrites = 1000;
  /// What else happens in the meantime, on the writing thread, before each rewrite.
  std::function<void(int rewrite)> meanwhile{};
};

struct StressResult {
  std::uint64_t calls = 0;
  std::uint64_t torn = 0;      ///< calls that did not run under exactly one of the files
  std::uint64_t accepted = 0;  ///< rewrites
  std::uint64_t refused = 0;
};

StressResult run_stress(const Stress& stress);

}  // namespace fla_test
