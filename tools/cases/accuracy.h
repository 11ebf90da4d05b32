#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "fla/core/tensor.h"

namespace fla::cases {

/// The relative error ‖x − reference‖ / ‖reference‖, gathered element by element. Infinite as soon as one
/// element of either is not finite. Where the reference is all zeros, ‖x‖ stands for it.
class ErrorSum {
 public:
  void add(double x, double reference) {
    if (!std::isfinite(x) || !std::isfinite(reference)) finite_ = false;
    difference_ += (x - reference) * (x - reference);
    norm_ += reference * reference;
  }
  /// The elements of a float tensor on the CPU, strides honoured, against a row-major reference of as many.
  void add(const TensorView& x, std::span<const double> reference);
  double relative() const {
    if (!finite_) return std::numeric_limits<double>::infinity();
    return std::sqrt(norm_ > 0 ? difference_ / norm_ : difference_);
  }

 private:
  double difference_ = 0, norm_ = 0;
  bool finite_ = true;
};

/// One element of floats on the CPU; `offset` counts elements.
double element(const void* data, DType dtype, std::int64_t offset);
double element(const TensorView& tensor, std::int64_t offset);

/// Sets one element of a tensor on the CPU, rounded to its dtype.
void store(const TensorView& tensor, std::int64_t offset, double value);

/// The error of a float tensor on the CPU, strides honoured, against a row-major reference of as many
/// elements.
double relative_error(const TensorView& x, std::span<const double> reference);

/// The same against a tensor. The shapes must be equal.
double relative_error(const TensorView& x, const TensorView& reference);

/// How large the error of an op may be whose inputs have this dtype: 2e-5 for f32, 8e-3 for bf16, 2e-3 for
/// f16.
double tolerance(DType inputs);

/// The same of gradients: 1e-4 for f32, 1.5e-2 for bf16, 4e-3 for f16.
double gradient_tolerance(DType inputs);

}  // namespace fla::cases
