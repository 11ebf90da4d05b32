#pragma once

#include <string>

#include "fla/core/cuda_devices.h"

namespace fla::testing {

/// What the command says of a device that no machine has.
inline std::string absence_of_cuda_99() {
  std::string reason(why_no_cuda_device());
  if (reason.empty()) {
    const std::size_t count = cuda_devices().size();
    reason = "this machine has " + std::to_string(count) + " CUDA device" + (count == 1 ? "" : "s");
  }
  return "cuda:99 is not there: " + reason;
}

}  // namespace fla::testing
