#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fla/core/device_memory.h"
#include "fla/ops/ops.h"
#include "tests/ops/common/random_tensor.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/layer_reference.h"

namespace fla_test {

/// What a random call of a step is like. `slots`: of the sequences, in pools of `pool` slots.
struct StepSpec {
  std::int64_t B = 3, H = 1, HV = 2, K = 64, V = 64, W = 4;
  fla::DType dtype = fla::DType::f32, conv_dtype = fla::DType::f32, state_dtype = fla::DType::f32,
             z_dtype = fla::DType::f32;
  bool conv_bias = true, gate = true, bounded = false, l2norm = true, beta_sigmoid = true, neg_eigval = false,
       v_first = false, norm_weight = true, sigmoid = false;
  std::vector<std::int64_t> slots{};
  std::int64_t pool = 0;

  std::string text() const {
    return "B=" + std::to_string(B) + " H=" + std::to_string(H) + " HV=" + std::to_string(HV) +
           " K=" + std::to_string(K) + " V=" + std::to_string(V) + " W=" + std::to_string(W) + " " +
           std::string(name_of(dtype)) + " state " + std::string(name_of(state_dtype)) +
           (v_first ? " v first" : "") + (gate ? " gate" : "") + (slots.empty() ? "" : " slots");
  }
  /// Of results; the original kernels round what goes from part to part.
  double tolerance() const { return std::max(fla::cases::tolerance(dtype), fla::cases::tolerance(z_dtype)); }
};

/// A random call and its memory; `out` is filled with 7.
template <class Args>
struct StepCall {
  explicit StepCall(const StepSpec& spec) {
    constexpr bool of_channels = Args::kOp.recurrence.gate == fla::GateKind::channel;
    const auto [B, H, HV, K, V, W] = std::tuple(spec.B, spec.H, spec.HV, spec.K, spec.V, spec.W);
    const std::int64_t D = 2 * H * K + HV * V, P = spec.pool > 0 ? spec.pool : B;
    x = random_tensor({B, 1, D}, spec.dtype, 1);
    conv_weight = random_tensor({D, W}, spec.dtype, 2, 0.5f);
    conv_bias = random_tensor({D}, spec.dtype, 3, 0.5f);
    conv_state = random_tensor({P, D, W - 1}, spec.conv_dtype, 4);
    beta = random_tensor({B, 1, HV}, spec.dtype, 5, 0.5f);
    g = of_channels ? random_tensor({B, 1, HV, K}, spec.dtype, 6) : random_tensor({B, 1, HV}, spec.dtype, 6);
    if (!spec.gate) {
      for (std::int64_t i = 0; i < g.numel(); ++i)
        fla::cases::store(g, i, -std::abs(fla::cases::element(g, i)));
    }
    A_log = random_tensor({HV}, fla::DType::f32, 7, 0.3f);
    dt_bias =
        of_channels ? random_tensor({HV, K}, fla::DType::f32, 8) : random_tensor({HV}, fla::DType::f32, 8);
    z = random_tensor({B, 1, HV, V}, spec.z_dtype, 9, 2);
    norm_weight = random_tensor({V}, spec.dtype, 10);
    state = spec.v_first ? random_tensor({P, HV, V, K}, spec.state_dtype, 11, 0.3f)
                         : random_tensor({P, HV, K, V}, spec.state_dtype, 11, 0.3f);
    out = fla::Tensor::empty({B, 1, HV, V}, spec.z_dtype);
    for (std::int64_t i = 0; i < out.numel(); ++i) fla::cases::store(out, i, 7);
    args = {.x = x, .conv_weight = conv_weight, .conv_state = conv_state, .g = g, .beta = beta, .z = z};
    args.state = state;
    if (spec.conv_bias) args.conv_bias = conv_bias;
    if (spec.norm_weight) args.norm_weight = norm_weight;
    args.use_gate_in_kernel = spec.gate;
    if (spec.gate) args.A_log = A_log, args.dt_bias = dt_bias;
    if (spec.gate && spec.bounded) args.lower_bound = -4.0f;
    args.use_qk_l2norm_in_kernel = spec.l2norm;
    args.use_beta_sigmoid_in_kernel = spec.beta_sigmoid;
    args.allow_neg_eigval = spec.neg_eigval;
    args.state_v_first = spec.v_first;
    args.norm_eps = 1e-5f;
    args.norm_use_sigmoid = spec.sigmoid;
    if (!spec.slots.empty()) {
      state_indices = fla::Tensor::empty({B}, fla::DType::i32);
      for (std::int64_t n = 0; n < B; ++n)
        state_indices.as<std::int32_t>()[n] =
            static_cast<std::int32_t>(spec.slots[static_cast<std::size_t>(n)]);
      args.state_indices = state_indices;
    }
    args.out = out;
  }

  fla::Tensor x, conv_weight, conv_bias, conv_state, g, beta, A_log, dt_bias, z, norm_weight, state,
      state_indices, out;
  Args args;
};

/// What a step has left in its call's memory is right.
template <class Args>
void expect_agrees(const Args& args, const fla::cases::StepReference& reference, const StepSpec& spec) {
  EXPECT_LE(fla::cases::relative_error(args.out, reference.o), spec.tolerance()) << spec.text();
  EXPECT_LE(fla::cases::relative_error(args.conv_state, reference.conv_state),
            spec.conv_dtype == spec.dtype ? 0 : fla::cases::tolerance(spec.conv_dtype))
      << spec.text();
  EXPECT_LE(fla::cases::relative_error(args.state, reference.state),
            std::max(fla::cases::tolerance(spec.dtype), fla::cases::tolerance(spec.state_dtype)))
      << spec.text();
}

/// Of sizes that `K` and `V` are among: widths, dtypes, layouts of states, gates, grouped heads, pools with
/// sequences that are skipped.
inline std::vector<StepSpec> step_specs(std::int64_t K, std::int64_t V) {
  using fla::DType;
  std::vector<StepSpec> specs;
  for (const std::int64_t W : {2, 3, 4}) specs.push_back({.K = K, .V = V, .W = W, .v_first = W == 3});
  specs.push_back({.H = 2,
                   .HV = 2,
                   .K = K,
                   .V = V,
                   .conv_bias = false,
                   .gate = false,
                   .l2norm = false,
                   .beta_sigmoid = false,
                   .norm_weight = false,
                   .sigmoid = true});
  specs.push_back(
      {.H = 1, .HV = 3, .K = K, .V = V, .bounded = true, .neg_eigval = true, .slots = {4, -1, 0}, .pool = 6});
  specs.push_back({.B = 2,
                   .H = 2,
                   .HV = 4,
                   .K = K,
                   .V = V,
                   .dtype = DType::bf16,
                   .conv_dtype = DType::bf16,
                   .state_dtype = DType::bf16,
                   .z_dtype = DType::bf16,
                   .slots = {1, 2},
                   .pool = 3});
  specs.push_back({.K = K,
                   .V = V,
                   .dtype = DType::bf16,
                   .conv_dtype = DType::bf16,
                   .state_dtype = DType::bf16,
                   .z_dtype = DType::bf16,
                   .v_first = true,
                   .sigmoid = true});
  specs.push_back({.K = K, .V = V, .dtype = DType::f16, .conv_dtype = DType::f16, .z_dtype = DType::f32});
  return specs;
}

/// The steps that there are, for typed tests.
template <class First, class... Others>
using TypesBut = testing::Types<Others...>;  // a list of ops begins with a comma
#define FLA_OP(NAME, ARGS) , fla::ARGS
using StepTypes = TypesBut<void FLA_STEP_OPS(FLA_OP)>;
#undef FLA_OP

/// The op's function, through dispatch or by itself.
inline fla::StepResult run_step(const fla::KdaStepArgs& args) { return fla::kda_step(args); }
inline fla::StepResult run_step(const fla::GatedDeltaRuleStepArgs& args) {
  return fla::gated_delta_rule_step(args);
}
inline fla::StepResult run_original_step(const fla::KdaStepArgs& args) {
  return fla::original::kda_step(args);
}
inline fla::StepResult run_original_step(const fla::GatedDeltaRuleStepArgs& args) {
  return fla::original::gated_delta_rule_step(args);
}

}  // namespace fla_test
