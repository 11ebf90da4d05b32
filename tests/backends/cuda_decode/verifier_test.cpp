#include "backends/cuda_decode/verifier.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/backends/cuda_decode/refusals.h"

namespace {

using fla::CudaDevice;
using fla::cuda_decode::verify;
using fla_test::DecodeCall;

const CudaDevice kHopper{.name = "NVIDIA H200", .major = 9, .minor = 0};
const CudaDevice kTuring{.name = "Tesla T4", .major = 7, .minor = 5};

class CudaDecodeVerifierRefuses : public testing::TestWithParam<fla_test::Refusal> {};

TEST_P(CudaDecodeVerifierRefuses, WithItsReason) {
  DecodeCall call;
  GetParam().spoil(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(call.args, &kHopper).reason(), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Branches, CudaDecodeVerifierRefuses, testing::ValuesIn(fla_test::refusals()),
                         [](const auto& test) { return test.param.name; });

class CudaDecodeVerifierTakes : public testing::TestWithParam<fla_test::Acceptance> {};

TEST_P(CudaDecodeVerifierTakes, WhatTheKernelsTake) {
  DecodeCall call;
  GetParam().change(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(call.args, &kHopper).reason(), "");
}

INSTANTIATE_TEST_SUITE_P(Calls, CudaDecodeVerifierTakes, testing::ValuesIn(fla_test::acceptances()),
                         [](const auto& test) { return test.param.name; });

TEST(CudaDecodeVerifier, RefusesStridesOfWhatOtherOpsHave) {
  fla_test::OtherOpsCall call;
  EXPECT_EQ(verify(call.with_backward_gamma(), &kHopper).reason(), fla_test::OtherOpsCall::kBackwardGamma);
  EXPECT_EQ(verify(call.with_far(&fla::DplrDeltaRuleArgs::a), &kHopper).reason(), call.far_reason("a"));
  EXPECT_EQ(verify(call.with_far(&fla::DplrDeltaRuleArgs::b), &kHopper).reason(), call.far_reason("b"));
}

/// A step over rings that cuda_decode takes, of ops with and without a low-rank pair.
class ReplayStep : public fla_test::MetadataTensors {
 public:
  explicit ReplayStep(std::int64_t T = 1, std::int64_t HV = 4, std::int64_t K = 64, std::int64_t V = 64) {
    args = {.q = tensor({2, T, 2, K}),
            .k = tensor({2, T, 2, K}),
            .v = tensor({2, T, HV, V}),
            .g = tensor({2, T, HV, K}),
            .beta = tensor({2, T, HV}),
            .state = tensor({5, HV, K, V}),
            .state_indices = tensor({2}, fla::DType::i32),
            .ring_begin = tensor({2}, fla::DType::i32),
            .ring_end = tensor({2}, fla::DType::i32),
            .ring_k = tensor({5, 32, 2, K}),
            .ring_u = tensor({5, 32, HV, V}),
            .ring_g = tensor({5, 32, HV, K})};
  }

  fla::DplrDeltaRuleReplayArgs with_pair() {
    return {.q = args.q,
            .k = args.k,
            .v = args.v,
            .a = args.k,
            .b = args.k,
            .g = args.g,
            .state = args.state,
            .state_indices = args.state_indices,
            .ring_begin = args.ring_begin,
            .ring_end = args.ring_end,
            .ring_k = args.ring_k,
            .ring_u = args.ring_u,
            .ring_b = tensor({5, 32, 2, 64}),
            .ring_w = tensor({5, 32, 4, 64}),
            .ring_g = args.ring_g};
  }

  void put_on(fla::Device device) {
    MetadataTensors::put_on(device, fla::KdaReplayArgs::arguments(), &args);
    for (TensorView* index : {&args.state_indices, &args.ring_begin, &args.ring_end})
      *index = TensorView(counts_.data(), fla::DType::i64, {2});
  }

  fla::KdaReplayArgs args;

 private:
  using TensorView = fla::TensorView;
  std::vector<std::int64_t> counts_{0, 1};
};

template <class Args>
std::string refusal_of(const Args& args, const CudaDevice* device = &kHopper) {
  EXPECT_NO_THROW(fla::validate_arguments(args));
  return verify(args, device).reason();
}

TEST(CudaDecodeReplayVerifier, TakesSteps) {
  EXPECT_EQ(refusal_of(ReplayStep().args), "");
  EXPECT_EQ(refusal_of(ReplayStep(8, 2, 128, 64).args), "");
  ReplayStep strided;
  strided.args.ring_k = ReplayStep::strided(strided.args.ring_k, 3, -1);
  EXPECT_EQ(refusal_of(strided.args), "");
}

TEST(CudaDecodeReplayVerifier, RefusesOtherDevices) {
  ReplayStep step;
  step.put_on({});
  EXPECT_EQ(refusal_of(step.args), "requires CUDA tensors, got cpu");
  step.put_on({fla::DeviceType::cuda, 7});
  EXPECT_EQ(refusal_of(step.args, nullptr), "requires a GPU that is there, got cuda:7");
  EXPECT_EQ(refusal_of(ReplayStep().args, &kTuring), "requires compute capability 8.0 or above, got 7.5");
}

TEST(CudaDecodeReplayVerifier, RefusesSizesThatItHasNoKernelsFor) {
  EXPECT_EQ(refusal_of(ReplayStep(9).args), "requires T from 1 to 8, got 9");
  EXPECT_EQ(refusal_of(ReplayStep(1, 4, 32, 64).args), "requires K=64 or K=128, got 32");
  EXPECT_EQ(refusal_of(ReplayStep(1, 4, 64, 96).args), "requires V=64 or V=128, got 96");
  EXPECT_EQ(refusal_of(ReplayStep(1, 65536).args), "requires at most 65535 value heads, got 65536");
  EXPECT_EQ(refusal_of(ReplayStep().with_pair()),
            "requires a rule with one key a token, got dplr_delta_rule");
}

TEST(CudaDecodeReplayVerifier, RefusesFarVectors) {
  ReplayStep step;
  step.args.q = ReplayStep::strided(step.args.q, 0, std::int64_t{1} << 32);
  EXPECT_EQ(refusal_of(step.args), "requires strides from 0 to 2^32-1 in q, got 4294967296");
}

TEST(CudaDecodeReplayVerifier, RefusesStatesThatItCannotRead) {
  const auto refusal = [](const std::function<fla::TensorView(const fla::TensorView&)>& spoil) {
    ReplayStep step;
    step.args.state = spoil(step.args.state);
    return refusal_of(step.args);
  };
  EXPECT_EQ(refusal([](const auto& state) {
              const auto wide = ReplayStep::strided(ReplayStep::strided(state, 0, 1 << 20), 1, 1 << 16);
              return ReplayStep::strided(wide, 2, 65);
            }),
            "requires contiguous states in state, got strides 65 and 1");
  EXPECT_EQ(refusal([](const auto& state) { return ReplayStep::moved(state, 4); }),
            "requires state aligned to 16 bytes, got an address 4 bytes off");
  EXPECT_EQ(refusal([](const auto& state) { return ReplayStep::strided(state, 0, 4 * 64 * 64 + 1); }),
            "requires slots of state at multiples of 16 bytes, got stride 16385");
  EXPECT_EQ(refusal([](const auto& state) {
              return ReplayStep::strided(ReplayStep::strided(state, 1, 64 * 64 + 1), 0, 1 << 20);
            }),
            "requires heads of state at multiples of 16 bytes, got stride 4097");
}

TEST(CudaDecodeReplayVerifier, RefusesAWorkspaceThatDoesNotDo) {
  ReplayStep step;
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(fla::recurrence::replay_arguments_of(step.args)), 0u);
  const std::vector<std::int64_t> counts{0, 1};
  step.args.ring_end = fla::TensorView(counts.data(), fla::DType::i64, {2});
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(fla::recurrence::replay_arguments_of(step.args)), 256u);
  alignas(256) std::byte memory[512];
  step.args.workspace = {memory, 255};
  EXPECT_EQ(refusal_of(step.args), "requires a workspace of 256 bytes, got 255");
  step.args.workspace = {memory + 8, 256};
  EXPECT_EQ(refusal_of(step.args), "requires a workspace aligned to 256 bytes, got an address 8 bytes off");
}

/// A step of a whole layer that cuda_decode takes.
class LayerStep : public fla_test::MetadataTensors {
 public:
  explicit LayerStep(std::int64_t HV = 4, std::int64_t K = 64, std::int64_t V = 64) {
    const std::int64_t D = 4 * K + HV * V;
    args = {.x = tensor({2, 1, D}),
            .conv_weight = tensor({D, 4}),
            .conv_state = tensor({5, D, 3}),
            .g = tensor({2, 1, HV, K}),
            .beta = tensor({2, 1, HV}),
            .z = tensor({2, 1, HV, V}),
            .state = tensor({5, HV, K, V}),
            .conv_bias = tensor({D}),
            .A_log = tensor({HV}),
            .dt_bias = tensor({HV * K}),
            .norm_weight = tensor({V})};
    args.state_indices = tensor({2}, fla::DType::i32);
    args.out = tensor({2, 1, HV, V});
  }

  void put_on(fla::Device device) {
    MetadataTensors::put_on(device, fla::KdaStepArgs::arguments(), &args);
    args.state_indices = fla::TensorView(slots_.data(), fla::DType::i64, {2});
  }

  fla::KdaStepArgs args;

 private:
  std::vector<std::int64_t> slots_{0, 1};
};

TEST(CudaDecodeLayerVerifier, TakesSteps) {
  EXPECT_EQ(refusal_of(LayerStep().args), "");
  EXPECT_EQ(refusal_of(LayerStep(2, 128, 64).args), "");
}

TEST(CudaDecodeLayerVerifier, RefusesOtherDevices) {
  LayerStep step;
  step.put_on({});
  EXPECT_EQ(refusal_of(step.args), "requires CUDA tensors, got cpu");
  step.put_on({fla::DeviceType::cuda, 7});
  EXPECT_EQ(refusal_of(step.args, nullptr), "requires a GPU that is there, got cuda:7");
  EXPECT_EQ(refusal_of(LayerStep().args, &kTuring), "requires compute capability 8.0 or above, got 7.5");
}

TEST(CudaDecodeLayerVerifier, RefusesSizesThatItHasNoKernelsFor) {
  EXPECT_EQ(refusal_of(LayerStep(4, 32, 64).args), "requires K=64 or K=128, got 32");
  EXPECT_EQ(refusal_of(LayerStep(4, 64, 96).args), "requires V=64 or V=128, got 96");
  EXPECT_EQ(refusal_of(LayerStep(65536).args), "requires at most 65535 value heads, got 65536");
}

TEST(CudaDecodeLayerVerifier, RefusesFarVectors) {
  const std::vector<std::pair<std::string, fla::TensorView fla::KdaStepArgs::*>> vectors{
      {"x", &fla::KdaStepArgs::x},
      {"conv_weight", &fla::KdaStepArgs::conv_weight},
      {"conv_state", &fla::KdaStepArgs::conv_state},
      {"g", &fla::KdaStepArgs::g},
      {"beta", &fla::KdaStepArgs::beta},
      {"z", &fla::KdaStepArgs::z},
      {"conv_bias", &fla::KdaStepArgs::conv_bias},
      {"A_log", &fla::KdaStepArgs::A_log},
      {"norm_weight", &fla::KdaStepArgs::norm_weight},
      {"out", &fla::KdaStepArgs::out}};
  for (const auto& [name, member] : vectors) {
    LayerStep step;
    const bool is_output = name == "conv_state" || name == "out";  // they may overlap nothing
    const std::int64_t stride = is_output ? std::int64_t{1} << 32 : -1;
    step.args.*member = LayerStep::strided(step.args.*member, 0, stride);
    EXPECT_EQ(refusal_of(step.args),
              "requires strides from 0 to 2^32-1 in " + name + ", got " + std::to_string(stride));
  }
  LayerStep step;
  step.args.dt_bias = LayerStep::strided(step.args.dt_bias, 0, std::int64_t{1} << 27);
  EXPECT_EQ(refusal_of(step.args), "requires strides from 0 to 2^32-1 in dt_bias, got 134217728");
}

TEST(CudaDecodeLayerVerifier, RefusesStatesThatItCannotRead) {
  LayerStep step;
  step.args.state = LayerStep::moved(step.args.state, 4);
  EXPECT_EQ(refusal_of(step.args), "requires state aligned to 16 bytes, got an address 4 bytes off");
}

TEST(CudaDecodeLayerVerifier, RefusesAWorkspaceThatDoesNotDo) {
  LayerStep step;
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(fla::step::arguments_of(step.args)), 0u);
  const std::vector<std::int64_t> slots{0, 1};
  step.args.state_indices = fla::TensorView(slots.data(), fla::DType::i64, {2});
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(fla::step::arguments_of(step.args)), 256u);
  alignas(256) std::byte memory[512];
  step.args.workspace = {memory, 255};
  EXPECT_EQ(refusal_of(step.args), "requires a workspace of 256 bytes, got 255");
}

TEST(CudaDecodeVerifier, RefusesAGpuThatIsNotThere) {
  DecodeCall call;
  call.put_on({fla::DeviceType::cuda, 7});
  EXPECT_EQ(verify(call.args, nullptr).reason(), "requires a GPU that is there, got cuda:7");
}

TEST(CudaDecodeVerifier, RefusesAGpuThatIsTooOld) {
  const DecodeCall call;
  EXPECT_EQ(verify(call.args, &kTuring).reason(), "requires compute capability 8.0 or above, got 7.5");
}

TEST(CudaDecodeVerifier, TakesASm80) {
  const DecodeCall call;
  const CudaDevice ampere{.name = "NVIDIA A100", .major = 8, .minor = 0};
  EXPECT_TRUE(verify(call.args, &ampere).ok());
}

TEST(CudaDecodeVerifier, AsksForAWorkspaceWhereIndicesLieOnTheHostOnly) {
  DecodeCall call;
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(call.args), 0u);
  call.index_on_host();
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(call.args), 256u);
  call.args.state_write_indices = call.args.state_indices;
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(call.args), 256u);
  const std::vector<std::int64_t> many(33);
  call.resize(33, 1, 4, 64, 64);
  call.args.state_indices = fla::TensorView(many.data(), fla::DType::i64, {33});
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(call.args), 512u);
  call.args.num_accepted_tokens = call.args.state_indices;
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(call.args), 1024u);
  call.args.checkpoint_indices = fla::TensorView(many.data(), fla::DType::i64, {33, 1});
  EXPECT_EQ(fla::cuda_decode::workspace_bytes(call.args), 1280u);
}

}  // namespace
