#pragma once

#include <cstddef>
#include <cstdint>

#include "fla/core/tensor.h"
#include "fla/ops/common/kernel_views.h"

/// What kernels see of a tensor.
namespace fla::common {

inline Rows rows_of(const TensorView& tensor) {
  Rows rows{.data = tensor.data(),
            .dtype = tensor.dtype(),
            .batch = tensor.stride(0),
            .token = tensor.stride(1),
            .head = tensor.stride(2)};
  if (tensor.rank() != 4) return rows;
  rows.channel = tensor.stride(3);
  const std::size_t four = 4 * size_of(rows.dtype);
  rows.packed = rows.channel == 1 && tensor.size(3) % 4 == 0 &&
                reinterpret_cast<std::uintptr_t>(rows.data) % four == 0 && rows.batch % 4 == 0 &&
                rows.token % 4 == 0 && rows.head % 4 == 0;
  return rows;
}

inline States states_of(const TensorView& tensor, bool v_first) {
  if (!tensor.defined()) return {};
  return {.data = tensor.data(),
          .dtype = tensor.dtype(),
          .slots = tensor.size(0),
          .slot = tensor.stride(0),
          .head = tensor.stride(1),
          .key = tensor.stride(v_first ? 3 : 2),
          .value = tensor.stride(v_first ? 2 : 3)};
}

inline Indices indices_of(const TensorView& tensor) {
  if (!tensor.defined()) return {};
  return {.data = tensor.data(),
          .wide = tensor.dtype() == DType::i64,
          .on_host = tensor.device().is_cpu(),
          .stride = tensor.stride(0)};
}

inline IndexRows index_rows_of(const TensorView& tensor) {
  if (!tensor.defined()) return {};
  Indices first = indices_of(tensor);
  first.stride = tensor.stride(1);
  return {.first = first, .row = tensor.stride(0)};
}

/// Of [HV], [HV, K] or, where `channels` is K, [HV * K].
inline Parameters parameters_of(const TensorView& tensor, std::int64_t channels = 0) {
  if (!tensor.defined()) return {};
  Parameters parameters{.data = tensor.data(), .dtype = tensor.dtype(), .head = tensor.stride(0)};
  if (tensor.rank() == 2) {
    parameters.channel = tensor.stride(1);
  } else if (channels > 0) {
    parameters.channel = tensor.stride(0);
    parameters.head = tensor.stride(0) * channels;
  }
  return parameters;
}

}  // namespace fla::common
