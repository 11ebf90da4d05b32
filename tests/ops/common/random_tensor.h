#pragma once

#include <initializer_list>

#include "fla/core/half.h"
#include "fla/core/tensor.h"
#include "tools/cases/random.h"

namespace fla_test {

/// Numbers around 0 in a float dtype, row-major.
inline fla::Tensor random_tensor(std::initializer_list<std::int64_t> shape, fla::DType dtype,
                                 std::uint64_t seed, float scale = 1) {
  fla::Tensor tensor = fla::Tensor::empty(shape, dtype);
  fla::cases::Random random(seed);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const float value = scale * random.normal();
    switch (dtype) {
      case fla::DType::bf16: tensor.as<fla::bf16>()[i] = fla::from_float<fla::bf16>(value); break;
      case fla::DType::f16: tensor.as<fla::f16>()[i] = fla::from_float<fla::f16>(value); break;
      default: tensor.as<float>()[i] = value;
    }
  }
  return tensor;
}

}  // namespace fla_test
