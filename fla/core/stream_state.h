#pragma once

#include "fla/core/device.h"

namespace fla {

/// Whether what is put on the stream is being recorded into a CUDA graph: nobody may wait for it then. A null
/// stream is the device's legacy default stream. Never throws; no for the CPU.
bool is_capturing(Device device, Stream stream);

}  // namespace fla
