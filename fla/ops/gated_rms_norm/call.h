#pragma once

#include <cstdint>

#include "fla/ops/common/kernel_views.h"

namespace fla {

/// A valid call of gated_rms_norm, below the library's tensors, for kernels of CPUs and GPUs. o may be x.
struct GatedRmsNormCall {
  std::int64_t B = 0, T = 0, HV = 0, V = 0;
  float eps = 0;
  bool silu = true;  ///< the gate is g * sigmoid(g), otherwise sigmoid(g)
  common::Rows x{}, g{}, o{};
  common::Parameters weight{};  ///< channels are `head` apart
  /// Where they are given: o is zeros in batches whose entry is not from 0 to `pool` - 1, whatever x and g
  /// hold.
  common::Indices slots{};
  std::int64_t pool = common::kAnySlot;

  FLA_HOST_DEVICE std::int64_t rows() const { return B * T * HV; }
  FLA_HOST_DEVICE bool skips(std::int64_t row) const {
    if (!slots.data) return false;
    const std::int64_t slot = slots[row / HV / T];
    return slot < 0 || slot >= pool;
  }
  /// Where row i of a tensor begins.
  FLA_HOST_DEVICE std::int64_t row_at(const common::Rows& of, std::int64_t i) const {
    return i / HV / T * of.batch + i / HV % T * of.token + i % HV * of.head;
  }
};

}  // namespace fla
