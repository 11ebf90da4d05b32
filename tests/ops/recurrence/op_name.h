#pragma once

#include <string>

namespace fla_test {

/// Names typed tests by the op of their arguments.
struct OpName {
  template <class Args>
  static std::string GetName(int /*index*/) {
    return std::string(Args::kOp.name);
  }
};

}  // namespace fla_test
