#pragma once

#include "fla/core/arguments.h"
#include "fla/ops/recurrence/arguments.h"

namespace fla::recurrence {

/// Throws InvalidArgument unless cu_seqlens and the indices of slots are given with what they need and hold
/// what recurrence.h says. `sizes` are those of a call that its table finds right. Contents on a device
/// are not looked at, or, with FLA_CHECK_INDICES=1 and outside a graph capture, copied to the host first.
/// Allocates nothing for a right call after the first of its size on a thread, unless it copies.
void check_indices(const Arguments& args, const AxisSizes& sizes);

}  // namespace fla::recurrence
