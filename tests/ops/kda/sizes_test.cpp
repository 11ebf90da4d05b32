#include <gtest/gtest.h>

#include <string>

#include "tests/ops/kda/every_way.h"
#include "tools/cases/random_case.h"

namespace {

using fla::cases::make_kda_case;
using fla_test::expect_agreement;

using Channels = std::tuple<std::int64_t, std::int64_t>;

class KdaChannels : public testing::TestWithParam<Channels> {};

TEST_P(KdaChannels, Agree) {
  const auto [K, V] = GetParam();
  for (const fla::DType dtype : {fla::DType::f32, fla::DType::bf16}) {
    expect_agreement(make_kda_case({.T = 19, .H = 1, .HV = 2, .K = K, .V = V, .dtype = dtype}).args);
  }
}

INSTANTIATE_TEST_SUITE_P(All, KdaChannels,
                         testing::Combine(testing::Values(1, 3, 16, 100, 128, 256),
                                          testing::Values(1, 3, 16, 100, 128, 256)),
                         [](const auto& test) {
                           return std::string("K") + std::to_string(std::get<0>(test.param)) + "_V" +
                                  std::to_string(std::get<1>(test.param));
                         });

class KdaLengths : public testing::TestWithParam<std::int64_t> {};

TEST_P(KdaLengths, Agree) {
  for (const bool state : {false, true}) {
    expect_agreement(
        make_kda_case({.B = 2, .T = GetParam(), .H = 2, .K = 32, .V = 48, .initial_state = state}).args);
    expect_agreement(make_kda_case({.T = GetParam(),
                                    .H = 1,
                                    .K = 64,
                                    .V = 64,
                                    .dtype = fla::DType::bf16,
                                    .options = {.output_final_state = true, .use_gate_in_kernel = true}})
                         .args);
  }
}

INSTANTIATE_TEST_SUITE_P(All, KdaLengths,
                         testing::Values(0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130),
                         [](const auto& test) { return std::string("T") + std::to_string(test.param); });

TEST(RecurrenceSizes, NoBatchesGiveEmptyResults) {
  const auto call = make_kda_case({.B = 0, .T = 5, .H = 2, .K = 8, .V = 8});
  expect_agreement(call.args);
  EXPECT_EQ(fla::kda(call.args).o.numel(), 0);
}

/// As many heads as there are here would take minutes one by one.
TEST(RecurrenceSizes, NoTokensAreAnsweredAtOnceHoweverManyBatchesThereAre) {
  constexpr std::int64_t kMany = std::int64_t{1} << 28;
  const auto empty = [](std::initializer_list<std::int64_t> shape) {
    return fla::TensorView(nullptr, fla::DType::f32, shape);
  };
  const fla::KdaArgs args{.q = empty({kMany, 0, 64, 128}),
                          .k = empty({kMany, 0, 64, 128}),
                          .v = empty({kMany, 0, 64, 128}),
                          .g = empty({kMany, 0, 64, 128}),
                          .beta = empty({kMany, 0, 64})};
  for (const auto& [name, run] : fla_test::kEveryWay) {
    const fla::KdaResult result = run(args);
    EXPECT_EQ(result.o.view().describe(), "f32[268435456, 0, 64, 128] on cpu") << name;
    EXPECT_FALSE(result.final_state.defined()) << name;
  }
}

TEST(RecurrenceSizes, SkippedSequencesNeedNoPool) {
  const auto call = make_kda_case({.B = 5, .T = 0, .H = 1, .K = 8, .V = 8});
  fla::KdaArgs args = call.args;
  const std::int64_t skipped = -1;
  const std::int64_t shape[] = {5}, strides[] = {0};
  args.state_indices = {&skipped, fla::DType::i64, shape, strides};
  args.initial_state = args.final_state = {nullptr, fla::DType::f32, {0, 1, 8, 8}};
  for (const auto& [name, run] : fla_test::kEveryWay) {
    EXPECT_EQ(run(args).final_state.size(0), 0) << name;
  }
}

TEST(RecurrenceSizes, NoTokensStillHandTheStateOn) {
  for (const bool given : {false, true}) {
    expect_agreement(make_kda_case({.B = 3,
                                    .T = 0,
                                    .H = 2,
                                    .K = 8,
                                    .V = 8,
                                    .initial_state = given,
                                    .options = {.output_final_state = true}})
                         .args);
  }
}

}  // namespace
