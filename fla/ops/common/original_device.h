#pragma once

#include "fla/core/device.h"

namespace fla::common {

/// Throws InvalidArgument, which names the argument whose device it is, unless the original CUDA kernels run
/// there: the device exists and is of compute capability 8.0 or above.
void check_cuda_device(const char* argument, Device device);

}  // namespace fla::common
