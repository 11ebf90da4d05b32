#pragma once

#include <cstddef>

namespace fla {

/// Memory that a call may use as it likes while it runs, on the device of its tensors, 256-byte aligned.
/// Holds nothing from one call to the next. Calls that may run at the same time need one each.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace fla
