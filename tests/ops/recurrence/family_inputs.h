#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "fla/ops/ops.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random.h"

namespace fla_test {

/// A tensor of numbers between two bounds.
inline fla::Tensor filled(std::vector<std::int64_t> shape, fla::DType dtype, std::uint64_t seed, float low,
                          float high) {
  fla::Tensor tensor = fla::Tensor::empty(shape, dtype);
  fla::cases::Random random(seed);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    fla::cases::store(tensor, i, static_cast<double>(low + (high - low) * random.uniform()));
  return tensor;
}

struct FamilySizes {
  std::int64_t B = 1, T = 41, H = 2, HV = 4, K = 12, V = 20, P = 5;
  fla::DType dtype = fla::DType::f32, state = fla::DType::f32;
};

/// Tensors for any op of the family.
struct FamilyInputs {
  FamilySizes of{};
  /// Three packed sequences, the second of them empty, where B is 1; and slots for as many.
  std::vector<std::int64_t> starts{0, 19, 19, of.T}, reads{4, 2, 0}, writes{1, 3, -1};
  fla::Tensor q = keys(1, -1, 1), k = keys(2, -0.3f, 0.3f), v = filled(of_values(), of.dtype, 3, -1, 1),
              gates = filled({of.B, of.T, of.HV, of.K}, fla::DType::f32, 4, -0.5f, 0),
              scalars = filled({of.B, of.T, of.HV}, fla::DType::f32, 5, -0.5f, 0),
              beta = filled({of.B, of.T, of.HV}, of.dtype, 6, 0, 1), a = keys(7, -0.3f, 0.3f),
              b = keys(8, -0.3f, 0.3f), gamma = filled({of.HV}, fla::DType::f32, 9, -0.2f, 0),
              pool = filled({of.P, of.HV, of.K, of.V}, of.state, 10, -1, 1);

  std::vector<std::int64_t> of_values() const { return {of.B, of.T, of.HV, of.V}; }
  fla::Tensor keys(std::uint64_t seed, float low, float high) const {
    return filled({of.B, of.T, of.H, of.K}, of.dtype, seed, low, high);
  }

  /// The call of an op, which gets those that it has.
  template <class Args>
  Args call() const {
    Args args{.q = q, .k = k, .v = v};
    if constexpr (Args::kOp.rule == fla::Rule::delta) args.beta = beta;
    if constexpr (Args::kOp.rule == fla::Rule::low_rank) args.a = a, args.b = b;
    if constexpr (Args::kOp.gate == fla::GateKind::channel) args.g = gates;
    if constexpr (Args::kOp.gate == fla::GateKind::token) args.g = scalars;
    if constexpr (requires { args.layer_idx; }) args.layer_idx = 1, args.num_layers = 4;
    args.output_final_state = true;
    if (of.B == 1) args.cu_seqlens = {starts.data(), fla::DType::i64, {4}};
    return args;
  }
};

/// What gates may be: nearly none, ordinary ones, some that leave nothing in a few tokens or at once, and
/// such that let the state grow.
inline const std::pair<const char*, float (*)(fla::cases::Random&)> kFamilyGates[] = {
    {"slow", [](fla::cases::Random& random) { return -0.01f * random.uniform(); }},
    {"ordinary", [](fla::cases::Random& random) { return -5 * random.uniform(); }},
    {"strong", [](fla::cases::Random& random) { return -125 * random.uniform(); }},
    {"resets", [](fla::cases::Random& random) { return random.chance(0.1f) ? -INFINITY : -0.01f; }},
    {"growing", [](fla::cases::Random& random) { return 0.2f * random.uniform(); }},
};

}  // namespace fla_test
