#pragma once

#include <cstdint>

#include "fla/core/arguments.h"
#include "fla/ops/kda/kda.h"

namespace fla {

/// Throws InvalidArgument unless cu_seqlens and the indices of slots are given with what they need and hold
/// what fla/ops/kda/kda.h says. `sizes` are those of a call that its table finds right. Contents on a device
/// are not looked at, or, with FLA_CHECK_INDICES=1 and outside a graph capture, copied to the host first.
/// Allocates nothing for a right call after the first of its size on a thread, unless it copies.
void check_indices(const KdaArgs& args, const AxisSizes& sizes);

}  // namespace fla
