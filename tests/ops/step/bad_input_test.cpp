#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/ops/step/step_call.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::DType;
using fla::KdaStepArgs;
using fla::Tensor;
using fla::TensorView;
using fla_test::random_tensor;
using fla_test::StepCall;
using fla_test::StepSpec;

/// B=2, H=1, HV=2, K=4, V=3, W=4: D=14.
struct KdaStepRefuses : testing::Test {
  StepSpec spec{.B = 2, .H = 1, .HV = 2, .K = 4, .V = 3, .slots = {2, 0}, .pool = 3};
  StepCall<KdaStepArgs> call{spec}, before{spec};
  KdaStepArgs args = call.args;

  /// What kda_step says after its name, both ways; nothing may have been written.
  std::string answer(const KdaStepArgs& wrong) const {
    const auto said = [&](auto* run) {
      return fla_test::error_text<fla::InvalidArgument>([&] { (void)run(wrong); });
    };
    const std::string text = said(&fla::kda_step), name = "kda_step: ";
    EXPECT_EQ(said(&fla::original::kda_step), text);
    using fla::conformance::bytes_of;
    EXPECT_EQ(bytes_of(call.state), bytes_of(before.state));
    EXPECT_EQ(bytes_of(call.conv_state), bytes_of(before.conv_state));
    EXPECT_EQ(bytes_of(call.out), bytes_of(before.out));
    return text.starts_with(name) ? text.substr(name.size()) : "without its name: " + text;
  }
  std::string with(TensorView KdaStepArgs::*member, const Tensor& tensor) const {
    KdaStepArgs wrong = args;
    wrong.*member = tensor;
    return answer(wrong);
  }
};

TEST_F(KdaStepRefuses, MissingTensors) {
  EXPECT_EQ(answer({}), "x: expected a tensor of shape [B, T, D], got none");
  EXPECT_EQ(with(&KdaStepArgs::conv_weight, {}),
            "conv_weight: expected a tensor of shape [D=14, W], got none");
  EXPECT_EQ(with(&KdaStepArgs::conv_state, {}),
            "conv_state: expected a tensor of shape [P, D=14, W-1=3], got none");
  EXPECT_EQ(with(&KdaStepArgs::z, {}), "z: expected a tensor of shape [B=2, T=1, HV=2, V], got none");
  EXPECT_EQ(with(&KdaStepArgs::state, {}),
            "state: expected a tensor of shape [P=3, HV=2, K=4, V=3], got none");
}

TEST_F(KdaStepRefuses, OtherShapes) {
  EXPECT_EQ(with(&KdaStepArgs::conv_weight, random_tensor({13, 4}, DType::f32, 1)),
            "conv_weight: expected shape [D=14, W], got [13, 4]");
  EXPECT_EQ(with(&KdaStepArgs::state, random_tensor({4, 2, 4, 3}, DType::f32, 1)),
            "state: expected shape [P=3, HV=2, K=4, V=3], got [4, 2, 4, 3]");
  EXPECT_EQ(with(&KdaStepArgs::norm_weight, random_tensor({4}, DType::f32, 1)),
            "norm_weight: expected shape [V=3], got [4]");
}

TEST_F(KdaStepRefuses, MoreThanOneToken) {
  const StepCall<KdaStepArgs> one({.B = 1, .H = 1, .HV = 1, .K = 4, .V = 3});
  KdaStepArgs wrong = one.args;
  const Tensor x = random_tensor({1, 2, 11}, DType::f32, 1), g = random_tensor({1, 2, 1, 4}, DType::f32, 1),
               beta = random_tensor({1, 2, 1}, DType::f32, 1), z = random_tensor({1, 2, 1, 3}, DType::f32, 1);
  wrong.x = x, wrong.g = g, wrong.beta = beta, wrong.z = z, wrong.out = {};
  EXPECT_EQ(answer(wrong), "x: expected one token of every sequence, T=1, got T=2");
}

TEST_F(KdaStepRefuses, SizesThatDoNotGoTogether) {
  const auto of_channels = [&](std::int64_t D) {
    const Tensor x = random_tensor({2, 1, D}, DType::f32, 1), weight = random_tensor({D, 4}, DType::f32, 1),
                 inputs = random_tensor({3, D, 3}, DType::f32, 1);
    KdaStepArgs wrong = args;
    wrong.x = x, wrong.conv_weight = weight, wrong.conv_state = inputs, wrong.conv_bias = {};
    return answer(wrong);
  };
  const std::string words =
      "x: expected D = 2 H K + HV V of HV=2, K=4, V=3 and an H that HV is a multiple of, got D=";
  for (const std::int64_t D : {6, 13, 15, 30}) EXPECT_EQ(of_channels(D), words + std::to_string(D));
  for (const std::int64_t W : {1, 5}) {
    const Tensor weight = random_tensor({14, W}, DType::f32, 1),
                 inputs = random_tensor({3, 14, W - 1}, DType::f32, 1);
    KdaStepArgs wrong = args;
    wrong.conv_weight = weight, wrong.conv_state = inputs;
    EXPECT_EQ(answer(wrong), "conv_weight: expected W from 2 to 4, got " + std::to_string(W));
  }
  for (const std::int64_t K : {0, 257}) {
    const StepCall<KdaStepArgs> wide({.B = 1, .H = 1, .HV = 1, .K = K, .V = 3});
    EXPECT_EQ(answer(wide.args), "state: expected K from 1 to 256, got " + std::to_string(K));
  }
  for (const std::int64_t V : {0, 257}) {
    const StepCall<KdaStepArgs> wide({.B = 1, .H = 1, .HV = 1, .K = 4, .V = V});
    EXPECT_EQ(answer(wide.args), "state: expected V from 1 to 256, got " + std::to_string(V));
  }
  const StepCall<KdaStepArgs> none({.B = 1, .H = 1, .HV = 0, .K = 4, .V = 3});
  EXPECT_EQ(answer(none.args), "state: expected at least one head, got HV=0");
}

TEST_F(KdaStepRefuses, OtherDTypes) {
  EXPECT_EQ(with(&KdaStepArgs::state, Tensor::zeros({3, 2, 4, 3}, DType::f16)),
            "state: expected dtype bf16 or f32, got f16");
  EXPECT_EQ(with(&KdaStepArgs::out, Tensor::zeros({2, 1, 2, 3}, DType::bf16)),
            "out: expected dtype f32 like z, got bf16");
}

TEST_F(KdaStepRefuses, OptionsThatDoNotGoTogether) {
  KdaStepArgs wrong = args;
  wrong.norm_eps = -1.0f;
  EXPECT_TRUE(answer(wrong).starts_with("norm_eps: expected 0 or more, got -1"));
  wrong = args, wrong.A_log = {};
  EXPECT_EQ(answer(wrong),
            "A_log: expected a tensor of shape [HV] with use_gate_in_kernel and no lower_bound, got none");
  wrong = args, wrong.lower_bound = 1.0f;
  EXPECT_TRUE(answer(wrong).starts_with("lower_bound: expected a negative value, got 1"));
  wrong = args, wrong.safe_gate = true;
  EXPECT_EQ(answer(wrong), "lower_bound: expected a value in [-5, 0) with safe_gate, got none");
  wrong = args, wrong.use_beta_sigmoid_in_kernel = false, wrong.allow_neg_eigval = true;
  EXPECT_TRUE(answer(wrong).starts_with("use_beta_sigmoid_in_kernel: ")) << answer(wrong);
}

TEST_F(KdaStepRefuses, SlotsThatAreNotThereOrAnothers) {
  const auto slots = [&](std::int32_t first, std::int32_t second) {
    call.state_indices.as<std::int32_t>()[0] = first;
    call.state_indices.as<std::int32_t>()[1] = second;
    return answer(args);
  };
  EXPECT_EQ(slots(0, 3), "state_indices: expected entries below P=3, got state_indices[1]=3");
  EXPECT_EQ(slots(2, 2),
            "state_indices: expected slots that are written once, got state_indices[0]=2 and "
            "state_indices[1]=2");
}

TEST_F(KdaStepRefuses, MemoryThatIsNotItsOwn) {
  KdaStepArgs wrong = args;
  wrong.out = call.z;
  EXPECT_EQ(answer(wrong), "out: expected memory of its own, got some that overlaps z");
  wrong = args, wrong.state = TensorView(call.conv_state.data(), DType::f32, {3, 2, 4, 3});
  EXPECT_EQ(answer(wrong), "state: expected memory of its own, got some that overlaps conv_state");
}

TEST_F(KdaStepRefuses, DevicesThatAreNotThere) {
  const fla::Device device{fla::DeviceType::cuda, 999};
  KdaStepArgs wrong = args;
  for (const fla::Argument& argument : KdaStepArgs::arguments()) {
    if (!argument.is_tensor() || argument.kind == fla::ArgumentKind::index) continue;
    TensorView& tensor = argument.tensor(static_cast<void*>(&wrong));
    if (tensor.defined()) tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), device);
  }
  const std::string said = answer(wrong);
  EXPECT_TRUE(said.starts_with("x: expected device c")) << said;
  EXPECT_NE(said.find("got cuda:999"), std::string::npos) << said;
}

}  // namespace
