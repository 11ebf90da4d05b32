#pragma once

#include <cstdint>

#include "fla/ops/common/kernel_views.h"

namespace fla {

/// A valid call of merge, below the library's tensors, for kernels of CPUs and GPUs. Strides count floats.
struct MergeCall {
  std::int64_t C = 0, N = 0;
  int HV = 0, K = 0, V = 0;
  bool diagonal = false;  ///< P is [C, N, HV, K]
  const float *R = nullptr, *P = nullptr;
  std::int64_t R_summary = 0, R_sequence = 0, R_head = 0, R_key = 0, R_value = 0;
  std::int64_t P_summary = 0, P_sequence = 0, P_head = 0, P_row = 0, P_column = 0;
  common::States initial_state{}, final_state{};  ///< a slot a sequence; may be the same memory

  FLA_HOST_DEVICE const float* R_at(std::int64_t c, std::int64_t n, std::int64_t head) const {
    return R + c * R_summary + n * R_sequence + head * R_head;
  }
  FLA_HOST_DEVICE const float* P_at(std::int64_t c, std::int64_t n, std::int64_t head) const {
    return P + c * P_summary + n * P_sequence + head * P_head;
  }
};

}  // namespace fla
