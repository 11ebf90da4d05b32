#pragma once

#include "fla/ops/kda/kda.h"

namespace fla {

/// The original CPU kernel of chunk_kda: chunks of 16 tokens, in parallel over sequences and value heads.
/// Takes every call that validates. Throws InvalidArgument for tensors that are not on the CPU, and what a
/// stage throws.
KdaResult chunk_kda_cpu(const KdaArgs& args);

}  // namespace fla
