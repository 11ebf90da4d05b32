#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fla/ops/gated_rms_norm/gated_rms_norm.h"
#include "tests/ops/common/random_tensor.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/layer_reference.h"

namespace fla_test {

struct NormSpec {
  std::int64_t B = 2, T = 3, HV = 2, V = 128;
  fla::DType dtype = fla::DType::f32, gate_dtype = fla::DType::f32;
  bool weight = true, sigmoid = false;
  float scale = 1;

  std::string text() const {
    return "V=" + std::to_string(V) + " " + std::string(name_of(dtype)) + (sigmoid ? " sigmoid" : " silu");
  }
};

/// A random call and its memory.
struct NormCall {
  explicit NormCall(const NormSpec& spec)
      : x(random_tensor({spec.B, spec.T, spec.HV, spec.V}, spec.dtype, 1, spec.scale)),
        g(random_tensor({spec.B, spec.T, spec.HV, spec.V}, spec.gate_dtype, 2, 3)),
        weight(random_tensor({spec.V}, spec.dtype, 3)) {
    args = {.x = x, .g = g, .eps = 1e-5f, .use_sigmoid = spec.sigmoid};
    if (spec.weight) args.weight = weight;
  }

  fla::Tensor x, g, weight;
  fla::GatedRmsNormArgs args;
};

/// Rows of one channel, of less than a vector, of more than kernels hold in registers; both gates.
inline std::vector<NormSpec> norm_specs() {
  using fla::DType;
  std::vector<NormSpec> specs;
  for (const bool sigmoid : {false, true}) {
    for (const std::int64_t V : {1, 3, 64, 128, 200, 512, 1027})
      specs.push_back({.V = V, .weight = V != 64, .sigmoid = sigmoid});
    specs.push_back({.V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16, .sigmoid = sigmoid});
    specs.push_back({.V = 96, .dtype = DType::f16, .gate_dtype = DType::bf16, .sigmoid = sigmoid});
    specs.push_back({.T = 17, .V = 128, .sigmoid = sigmoid, .scale = 1e-3f});
  }
  return specs;
}

}  // namespace fla_test
