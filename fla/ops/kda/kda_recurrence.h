#pragma once

#include "fla/ops/kda/kda.h"

namespace fla {

/// The original CPU kernel of fused_recurrent_kda: the recurrence itself, token by token, in parallel over
/// sequences and value heads. Takes every call that validates. Throws InvalidArgument for tensors that are
/// not on the CPU, and what a stage throws.
KdaResult recurrent_kda_cpu(const KdaArgs& args);

}  // namespace fla
