#pragma once

#include <cstdint>

#include "fla/core/arguments.h"
#include "fla/ops/kda/kda.h"

namespace fla {

/// Entry i of an index on the host.
inline std::int64_t index_at(const TensorView& indices, std::int64_t i) {
  const std::int64_t at = i * indices.stride(0);
  return indices.dtype() == DType::i64 ? indices.as<const std::int64_t>()[at]
                                       : indices.as<const std::int32_t>()[at];
}

/// Throws InvalidArgument unless cu_seqlens and the indices of slots are given with what they need and hold
/// what fla/ops/kda/kda.h says. `sizes` are those of a call that its table finds right. Contents on a device
/// are not looked at, or, with FLA_CHECK_INDICES=1 and outside a graph capture, copied to the host first.
/// Allocates nothing for a right call after the first of its size on a thread, unless it copies.
void check_indices(const KdaArgs& args, const AxisSizes& sizes);

}  // namespace fla
