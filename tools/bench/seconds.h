#pragma once

#include <functional>

#include "fla/core/device.h"

namespace fla::bench {

/// Seconds that a run takes: on a CPU the least of several, on a GPU the median of several launches of a
/// graph of it. Everything that a run allocates on a GPU it gives back.
double seconds(Device device, const std::function<void(Stream)>& run);

}  // namespace fla::bench
