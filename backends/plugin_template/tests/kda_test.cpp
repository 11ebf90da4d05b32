#include "fla/ops/kda/kda.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <string>

#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"

/// Which calls the backend takes, and a refusal for every branch of its verifier. That the answers are right
/// is the conformance suite's business.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::Tensor;

Tensor waves(std::initializer_list<std::int64_t> shape, float offset) {
  Tensor tensor = Tensor::empty(shape, DType::f32);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.as<float>()[i] = offset + 0.1f * std::sin(static_cast<float>(i));
  return tensor;
}

/// The call's memory.
struct Call {
  std::int64_t T, K, V;
  Tensor q = waves({1, T, 2, K}, 0), k = waves({1, T, 2, K}, 0.1f), v = waves({1, T, 2, V}, 0);
  Tensor gates = waves({1, T, 2, K}, -0.2f), scalars = waves({1, T, 2}, -0.2f), beta = waves({1, T, 2}, 0.5f);
  KdaArgs args = made<KdaArgs>();

  /// The call, with what the op has.
  template <class Args>
  Args made() const {
    Args made{.q = q, .k = k, .v = v, .output_final_state = true};
    if constexpr (requires { made.beta; }) made.beta = beta;
    if constexpr (requires { made.a; }) made.a = made.b = k;
    if constexpr (Args::kOp.gate == fla::GateKind::channel) made.g = gates;
    if constexpr (Args::kOp.gate == fla::GateKind::token) made.g = scalars;
    if constexpr (requires { made.layer_idx; }) made.layer_idx = 0, made.num_layers = 2;
    return made;
  }
};

fla::Explanation::Row row_of(const KdaArgs& args, const std::string& function = "kda") {
  for (const fla::Explanation::Row& row : fla::explain("kda", function, args).rows) {
    if (row.name == "plugin_template") return row;
  }
  return {.state = "absent"};
}

TEST(PluginTemplate, TakesF32CallsOfBothFunctions) {
  const Call call{.T = 40, .K = 64, .V = 32};
  const fla::ScopedPolicy policy({.require = {{"kda", "plugin_template"}}});
  EXPECT_EQ(row_of(call.args, "chunk_kda").state, "selected");
  EXPECT_EQ(row_of(call.args, "fused_recurrent_kda").state, "selected");
  const auto [o, state] = fla::kda(call.args);  // throws unless the backend takes it
  const auto [expected_o, expected_state] = fla::original::chunk_kda(call.args);
  for (std::int64_t i = 0; i < o.numel(); ++i)
    ASSERT_NEAR(o.as<float>()[i], expected_o.as<float>()[i], 1e-5) << i;
  for (std::int64_t i = 0; i < state.numel(); ++i)
    ASSERT_NEAR(state.as<float>()[i], expected_state.as<float>()[i], 1e-5) << i;
}

void expect_refusal(const Call& call, const std::function<void(KdaArgs&)>& spoil, const std::string& reason) {
  KdaArgs args = call.args;
  spoil(args);
  for (const char* function : {"chunk_kda", "fused_recurrent_kda"}) {
    const fla::Explanation::Row row = row_of(args, function);
    EXPECT_EQ(row.state, "refused") << function;
    EXPECT_EQ(row.reason, reason) << function;
  }
}

TEST(PluginTemplateVerifier, RefusesTensorsThatAreNotF32) {
  const Call call{.T = 3, .K = 8, .V = 8};
  const Tensor halves = Tensor::zeros({1, 3, 2, 8}, DType::bf16);
  expect_refusal(
      call, [&](KdaArgs& args) { args.v = halves; }, "requires f32 tensors, got bf16");
}

TEST(PluginTemplateVerifier, RefusesStatesThatAreNotF32) {
  const Call call{.T = 3, .K = 8, .V = 8};
  const Tensor halves = Tensor::zeros({1, 2, 8, 8}, DType::bf16);
  expect_refusal(
      call, [&](KdaArgs& args) { args.initial_state = halves; }, "requires f32 states, got bf16");
}

TEST(PluginTemplateVerifier, RefusesMoreChannelsThanItHasRoomFor) {
  expect_refusal(
      {.T = 3, .K = 136, .V = 8}, [](KdaArgs&) {}, "requires K<=128, got 136");
  expect_refusal(
      {.T = 3, .K = 8, .V = 256}, [](KdaArgs&) {}, "requires V<=128, got 256");
}

/// Expects a refusal for each unsupported option that the op has.
template <class Args>
void expect_options_refused() {
  const Call call{.T = 3, .K = 8, .V = 8};
  [[maybe_unused]] const Tensor rates = Tensor::zeros({2}, DType::f32);
  if constexpr (requires(Args args) { args.use_gate_in_kernel; }) {
    expect_refusal(
        call,
        [&](Args& args) {
          args.use_gate_in_kernel = true;
          args.A_log = rates;
        },
        "requires decays as they are: has no use_gate_in_kernel");
  }
  if constexpr (requires(Args args) { args.use_beta_sigmoid_in_kernel; }) {
    expect_refusal(
        call, [](Args& args) { args.use_beta_sigmoid_in_kernel = true; },
        "requires beta as it is: has no use_beta_sigmoid_in_kernel");
  }
  if constexpr (requires(Args args) { args.normalize; }) {
    expect_refusal(
        call, [](Args& args) { args.normalize = true; }, "requires outputs as they are: has no normalize");
  }
}

TEST(PluginTemplateVerifier, RefusesCheckpoints) {
  const Call call{.T = 3, .K = 8, .V = 8};
  const Tensor states = Tensor::zeros({1, 3, 2, 8, 8}, DType::f32);
  expect_refusal(
      call, [&](KdaArgs& args) { args.checkpoint_every = 1, args.checkpoints = states; },
      "requires a call without checkpoints");
}

TEST(PluginTemplateVerifier, RefusesOptionsThatItDoesNotHave) { expect_options_refused<KdaArgs>(); }

}  // namespace
