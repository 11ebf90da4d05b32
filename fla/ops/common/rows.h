#pragma once

#include <cstdint>

#include "fla/core/half.h"
#include "fla/core/tensor.h"

/// Rows of tensors as floats, whatever their dtype and stride.
namespace fla::common {

/// Calls body with a null pointer of the element type behind a float dtype.
template <class Body>
auto with_float_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::bf16: return body(static_cast<bf16*>(nullptr));
    case DType::f16: return body(static_cast<f16*>(nullptr));
    default: return body(static_cast<float*>(nullptr));
  }
}

/// row[i] = data[offset + i * stride], i < count.
inline void load_row(const void* data, DType dtype, std::int64_t offset, std::int64_t stride,
                     std::int64_t count, float* row) {
  with_float_type(dtype, [&]<class T>(T*) {
    const T* source = static_cast<const T*>(data) + offset;
    for (std::int64_t i = 0; i < count; ++i) row[i] = to_float(source[i * stride]);
  });
}
inline void load_row(const TensorView& tensor, std::int64_t offset, std::int64_t stride, std::int64_t count,
                     float* row) {
  load_row(tensor.data(), tensor.dtype(), offset, stride, count, row);
}

inline void store_row(void* data, DType dtype, std::int64_t offset, std::int64_t stride, std::int64_t count,
                      const float* row) {
  with_float_type(dtype, [&]<class T>(T*) {
    T* target = static_cast<T*>(data) + offset;
    for (std::int64_t i = 0; i < count; ++i) target[i * stride] = from_float<T>(row[i]);
  });
}
inline void store_row(const TensorView& tensor, std::int64_t offset, std::int64_t stride, std::int64_t count,
                      const float* row) {
  store_row(tensor.data(), tensor.dtype(), offset, stride, count, row);
}

inline float load_element(const TensorView& tensor, std::int64_t offset) {
  float value = 0;
  load_row(tensor, offset, 0, 1, &value);
  return value;
}

}  // namespace fla::common
