#include "backends/tilelang/verifier.h"

#include <gtest/gtest.h>

#include "tests/backends/tilelang/refusals.h"

namespace {

using fla::CudaDevice;
using fla::tilelang::verify;
using fla_test::ChunkCall;

const CudaDevice kHopper{.name = "NVIDIA H200", .major = 9, .minor = 0};

class TileLangVerifierRefuses : public testing::TestWithParam<fla_test::Refusal> {};

TEST_P(TileLangVerifierRefuses, WithItsReason) {
  ChunkCall call;
  GetParam().spoil(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(call.args, &kHopper).reason(), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Branches, TileLangVerifierRefuses, testing::ValuesIn(fla_test::refusals()),
                         [](const auto& test) { return test.param.name; });

class TileLangVerifierTakes : public testing::TestWithParam<fla_test::Acceptance> {};

TEST_P(TileLangVerifierTakes, WhatTheKernelsTake) {
  ChunkCall call;
  GetParam().change(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(call.args, &kHopper).reason(), "");
}

INSTANTIATE_TEST_SUITE_P(Calls, TileLangVerifierTakes, testing::ValuesIn(fla_test::acceptances()),
                         [](const auto& test) { return test.param.name; });

TEST(TileLangVerifier, RefusesAGpuThatIsNotThere) {
  ChunkCall call;
  call.put_on({fla::DeviceType::cuda, 7});
  EXPECT_EQ(verify(call.args, nullptr).reason(), "requires a GPU that is there, got cuda:7");
}

TEST(TileLangVerifier, RefusesOlderAndNewerGpus) {
  const ChunkCall call;
  const CudaDevice ampere{.name = "NVIDIA A100", .major = 8, .minor = 0};
  const CudaDevice blackwell{.name = "NVIDIA B200", .major = 10, .minor = 0};
  EXPECT_EQ(verify(call.args, &ampere).reason(), "requires compute capability 9.0, got 8.0");
  EXPECT_EQ(verify(call.args, &blackwell).reason(), "requires compute capability 9.0, got 10.0");
}

}  // namespace
