#include "backends/cuda_backward/verifier.h"

#include <gtest/gtest.h>

#include "tests/backends/cuda_backward/refusals.h"

namespace {

using fla::CudaDevice;
using fla::cuda_backward::verify;
using fla_test::GradientCall;

const CudaDevice kHopper{.name = "NVIDIA H200", .major = 9, .minor = 0};

class CudaBackwardVerifierRefuses : public testing::TestWithParam<fla_test::Refusal> {};

TEST_P(CudaBackwardVerifierRefuses, WithItsReason) {
  GradientCall call;
  GetParam().spoil(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(call.args, &kHopper).reason(), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Branches, CudaBackwardVerifierRefuses, testing::ValuesIn(fla_test::refusals()),
                         [](const auto& test) { return test.param.name; });

class CudaBackwardVerifierTakes : public testing::TestWithParam<fla_test::Acceptance> {};

TEST_P(CudaBackwardVerifierTakes, WhatTheKernelsTake) {
  GradientCall call;
  GetParam().change(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(call.args, &kHopper).reason(), "");
}

INSTANTIATE_TEST_SUITE_P(Calls, CudaBackwardVerifierTakes, testing::ValuesIn(fla_test::acceptances()),
                         [](const auto& test) { return test.param.name; });

TEST(CudaBackwardVerifier, AsksTheSameOfGatedDeltaRule) {
  GradientCall call;
  fla::GatedDeltaRuleBackwardArgs args{.q = call.args.q,
                                       .k = call.args.k,
                                       .v = call.args.v,
                                       .g = call.tensor({2, 200, 4}),
                                       .beta = call.args.beta,
                                       .use_qk_l2norm_in_kernel = true,
                                       .do_ = call.args.do_};
  EXPECT_NO_THROW(fla::validate_arguments(args));
  EXPECT_EQ(verify(args, &kHopper).reason(), "");
  args.use_qk_l2norm_in_kernel = false;
  EXPECT_EQ(verify(args, &kHopper).reason(), "requires use_qk_l2norm_in_kernel");
}

TEST(CudaBackwardVerifier, RefusesAGpuThatIsNotThere) {
  GradientCall call;
  call.put_on({fla::DeviceType::cuda, 7});
  EXPECT_EQ(verify(call.args, nullptr).reason(), "requires a GPU that is there, got cuda:7");
}

TEST(CudaBackwardVerifier, RefusesOlderAndNewerGpus) {
  const GradientCall call;
  const CudaDevice ampere{.name = "NVIDIA A100", .major = 8, .minor = 0};
  const CudaDevice blackwell{.name = "NVIDIA B200", .major = 10, .minor = 0};
  EXPECT_EQ(verify(call.args, &ampere).reason(), "requires compute capability 9.0, got 8.0");
  EXPECT_EQ(verify(call.args, &blackwell).reason(), "requires compute capability 9.0, got 10.0");
}

}  // namespace
