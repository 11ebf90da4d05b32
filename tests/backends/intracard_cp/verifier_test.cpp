#include "backends/intracard_cp/verifier.h"

#include <gtest/gtest.h>

#include "backends/intracard_cp/cut.h"
#include "fla/ops/ops.h"
#include "tests/backends/intracard_cp/refusals.h"

namespace {

using fla::CudaDevice;
using fla::intracard_cp::cut_of;
using fla::intracard_cp::verify;
using fla_test::LongCall;

constexpr std::int64_t kTokens = 2048;  // of a sequence
const CudaDevice kHopper{.name = "NVIDIA H200", .major = 9, .minor = 0, .multiprocessors = 132};

class IntracardCpVerifierRefuses : public testing::TestWithParam<fla_test::Refusal> {};

TEST_P(IntracardCpVerifierRefuses, WithItsReason) {
  LongCall call;
  GetParam().spoil(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(call.args, &kHopper, kTokens).reason(), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Branches, IntracardCpVerifierRefuses,
                         testing::ValuesIn(fla_test::refusals_of_long_calls(kHopper.multiprocessors)),
                         [](const auto& test) { return test.param.name; });

class IntracardCpVerifierTakes : public testing::TestWithParam<fla_test::Acceptance> {};

TEST_P(IntracardCpVerifierTakes, WhatTheKernelsTake) {
  LongCall call;
  GetParam().change(call);
  EXPECT_NO_THROW(fla::validate_arguments(call.args));
  EXPECT_EQ(verify(call.args, &kHopper, kTokens).reason(), "");
}

INSTANTIATE_TEST_SUITE_P(Calls, IntracardCpVerifierTakes, testing::ValuesIn(fla_test::long_calls()),
                         [](const auto& test) { return test.param.name; });

TEST(IntracardCpVerifier, RefusesWhatOtherOpsHave) {
  fla_test::NormalizedCall normalized;
  EXPECT_NO_THROW(fla::validate_arguments(normalized.args));
  EXPECT_EQ(verify(normalized.args, &kHopper, kTokens).reason(), fla_test::NormalizedCall::kReason);
  normalized.args.normalize = false;
  EXPECT_EQ(verify(normalized.args, &kHopper, kTokens).reason(), "");
  const fla_test::PairCall a(&fla::DplrDeltaRuleArgs::a), b(&fla::DplrDeltaRuleArgs::b);
  EXPECT_EQ(verify(a.args, &kHopper, kTokens).reason(), fla_test::PairCall::reason("a"));
  EXPECT_EQ(verify(b.args, &kHopper, kTokens).reason(), fla_test::PairCall::reason("b"));
}

TEST(IntracardCpVerifier, RefusesAGpuThatIsNotThere) {
  LongCall call;
  call.put_on({fla::DeviceType::cuda, 7});
  EXPECT_EQ(verify(call.args, nullptr, kTokens).reason(), "requires a GPU that is there, got cuda:7");
}

TEST(IntracardCpVerifier, RefusesOlderGpusAndTakesNewerOnes) {
  const LongCall call;
  const CudaDevice turing{.name = "Tesla T4", .major = 7, .minor = 5, .multiprocessors = 132};
  const CudaDevice blackwell{.name = "NVIDIA B200", .major = 10, .minor = 0, .multiprocessors = 148};
  EXPECT_EQ(verify(call.args, &turing, kTokens).reason(), "requires compute capability 8.0, got 7.5");
  EXPECT_EQ(verify(call.args, &blackwell, kTokens).reason(), "");
}

/// Parts follow from the processors; short sequences have fewer, a few heads no more than pays.
TEST(IntracardCpCut, FillsTheProcessors) {
  const auto parts = [](std::int64_t T, std::int64_t blocks, int multiprocessors) {
    return cut_of({.T = T, .tokens = T, .N = 1, .blocks = blocks}, multiprocessors).parts;
  };
  EXPECT_EQ(parts(32768, 16, 132), 16);
  EXPECT_EQ(parts(32768, 16, 64), 8);
  EXPECT_EQ(parts(32768, 66, 132), 4);
  EXPECT_EQ(parts(2048, 16, 132), 8);
  EXPECT_EQ(parts(1 << 20, 1, 132), 48);
}

/// The kernels of the delta rule with a decay a token have a multiprocessor each.
TEST(IntracardCpCut, KnowsHowManyBlocksRunTogether) {
  fla_test::MetadataTensors tensors;
  const auto reason = [&](std::int64_t HV) {
    const fla::GatedDeltaRuleArgs args{.q = tensors.tensor({1, 4096, 1, 128}),
                                       .k = tensors.tensor({1, 4096, 1, 128}),
                                       .v = tensors.tensor({1, 4096, HV, 128}),
                                       .g = tensors.tensor({1, 4096, HV}),
                                       .beta = tensors.tensor({1, 4096, HV})};
    EXPECT_NO_THROW(fla::validate_arguments(args));
    return verify(args, &kHopper, kTokens).reason();
  };
  EXPECT_EQ(reason(8), "");
  EXPECT_EQ(reason(9), "requires at most 33 blocks of 32 values in all heads of all sequences, got 36");
}

}  // namespace
