#include "tools/cases/accuracy.h"

#include <algorithm>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/half.h"
#include "tools/cases/offsets.h"

namespace fla::cases {

double element(const void* data, DType dtype, std::int64_t offset) {
  switch (dtype) {
    case DType::bf16: return to_float(static_cast<const bf16*>(data)[offset]);
    case DType::f16: return to_float(static_cast<const f16*>(data)[offset]);
    case DType::f32: return static_cast<const float*>(data)[offset];
    case DType::i32:
    case DType::i64: break;
  }
  throw InvalidArgument("x", "expected floats, got " + std::string(name_of(dtype)));
}
double element(const TensorView& tensor, std::int64_t offset) {
  return element(tensor.data(), tensor.dtype(), offset);
}

void store(const TensorView& tensor, std::int64_t offset, double value) {
  const auto number = static_cast<float>(value);
  switch (tensor.dtype()) {
    case DType::bf16: tensor.as<bf16>()[offset] = from_float<bf16>(number); break;
    case DType::f16: tensor.as<f16>()[offset] = from_float<f16>(number); break;
    case DType::f32: tensor.as<float>()[offset] = number; break;
    case DType::i32: tensor.as<std::int32_t>()[offset] = static_cast<std::int32_t>(value); break;
    case DType::i64: tensor.as<std::int64_t>()[offset] = static_cast<std::int64_t>(value); break;
  }
}

void ErrorSum::add(const TensorView& x, std::span<const double> reference) {
  if (x.numel() != static_cast<std::int64_t>(reference.size())) {
    throw InvalidArgument("x",
                          "expected " + std::to_string(reference.size()) + " elements, got " + x.describe());
  }
  const double* expected = reference.data();
  for_each_offset(x, [&](std::int64_t offset) { add(element(x, offset), *expected++); });
}

double relative_error(const TensorView& x, std::span<const double> reference) {
  ErrorSum sum;
  sum.add(x, reference);
  return sum.relative();
}

double relative_error(const TensorView& x, const TensorView& reference) {
  if (!std::ranges::equal(x.shape(), reference.shape())) {
    throw InvalidArgument(
        "x", "expected shape " + shape_text(reference.shape()) + ", got " + shape_text(x.shape()));
  }
  std::vector<double> expected;
  expected.reserve(static_cast<std::size_t>(reference.numel()));
  for_each_offset(reference, [&](std::int64_t offset) { expected.push_back(element(reference, offset)); });
  return relative_error(x, expected);
}

double tolerance(DType inputs) {
  switch (inputs) {
    case DType::bf16: return 8e-3;
    case DType::f16: return 2e-3;
    default: return 2e-5;
  }
}

double gradient_tolerance(DType inputs) {
  switch (inputs) {
    case DType::bf16: return 1.5e-2;
    case DType::f16: return 4e-3;
    default: return 1e-4;
  }
}

}  // namespace fla::cases
