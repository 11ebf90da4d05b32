#pragma once

#include "fla/ops/gated_rms_norm/call.h"
#include "fla/ops/recurrence/call.h"
#include "fla/ops/short_conv/call.h"

namespace fla {

/// A valid call of a step, below the library's tensors, for kernels of CPUs and GPUs: its parts in order.
/// What goes from one to the next, conv.o and the recurrence's q, k and v, recurrence.o and norm.x, is null
/// in a call without memory for it.
struct StepCall {
  ShortConvCall conv{};
  RecurrenceCall recurrence{};
  GatedRmsNormCall norm{};
};

}  // namespace fla
