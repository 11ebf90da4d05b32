#include "backends/cuda_decode/verifier.h"

#include <gtest/gtest.h>

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
