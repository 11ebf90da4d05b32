#include "backends/flash_kda/verifier.h"

#include <gtest/gtest.h>

#include "fla/ops/linear_attn/linear_attn.h"
#include "tests/backends/flash_kda/refusals.h"

namespace {

using fla::CudaDevice;
using fla::flash_kda::verify;
using fla::recurrence::arguments_of;
using fla_test::ChunkCall;

const CudaDevice kHopper{.name = "NVIDIA H200", .major = 9, .minor = 0};

class FlashKdaVerifierRefuses : public testing::TestWithParam<fla_test::Refusal> {};

TEST_P(FlashKdaVerifierRefuses, WithItsReason) {
  ChunkCall call;
  GetParam().spoil(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(arguments_of(call.args), &kHopper).reason(), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Branches, FlashKdaVerifierRefuses, testing::ValuesIn(fla_test::refusals()),
                         [](const auto& test) { return test.param.name; });

class FlashKdaVerifierTakes : public testing::TestWithParam<fla_test::Acceptance> {};

TEST_P(FlashKdaVerifierTakes, WhatTheKernelsTake) {
  ChunkCall call;
  GetParam().change(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(arguments_of(call.args), &kHopper).reason(), "");
}

INSTANTIATE_TEST_SUITE_P(Calls, FlashKdaVerifierTakes, testing::ValuesIn(fla_test::acceptances()),
                         [](const auto& test) { return test.param.name; });

TEST(FlashKdaVerifier, RefusesAGpuThatIsNotThere) {
  ChunkCall call;
  call.put_on({fla::DeviceType::cuda, 7});
  EXPECT_EQ(verify(arguments_of(call.args), nullptr).reason(), "requires a GPU that is there, got cuda:7");
}

/// Of the additive ops one can ask for that.
TEST(FlashKdaVerifier, RefusesOutputsThatAreNormalized) {
  const ChunkCall call;
  fla::LinearAttnArgs args;
  args.q = call.args.q, args.k = call.args.k, args.v = call.args.v;
  EXPECT_EQ(verify(arguments_of(args), &kHopper).reason(), "");
  args.normalize = true;
  EXPECT_EQ(verify(arguments_of(args), &kHopper).reason(), "requires outputs that are not normalized");
}

TEST(FlashKdaVerifier, RefusesOlderAndNewerGpus) {
  const ChunkCall call;
  const CudaDevice ampere{.name = "NVIDIA A100", .major = 8, .minor = 0};
  const CudaDevice blackwell{.name = "NVIDIA B200", .major = 10, .minor = 0};
  EXPECT_EQ(verify(arguments_of(call.args), &ampere).reason(), "requires compute capability 9.0, got 8.0");
  EXPECT_EQ(verify(arguments_of(call.args), &blackwell).reason(),
            "requires compute capability 9.0, got 10.0");
}

}  // namespace
