#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/gpu/gpu_agreement.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/surrounded.h"

/// Sizes, packings, strides and grids.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::TensorView;
using fla::cases::DataKind;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla::conformance::DeviceCall;
using fla::conformance::LaidOut;
using fla::conformance::Layout;
using fla::conformance::Surrounded;
using fla_test::expect_agreement_on_gpu;
using fla_test::kEveryWay;
using fla_test::kGpu;

class KdaKeysOnGpu : public fla_test::OnGpu<testing::TestWithParam<int>> {};

TEST_P(KdaKeysOnGpu, AreRightWithEveryNumberOfValues) {
  const std::int64_t K = GetParam();
  for (const std::int64_t V : {1, 17, 64, 128, 130, 256}) {
    expect_agreement_on_gpu(
        make_kda_case({.B = 2,
                       .T = 37,
                       .H = 1,
                       .HV = 2,
                       .K = K,
                       .V = V,
                       .dtype = K % 2 == 0 ? DType::bf16 : DType::f32,
                       .options = {.output_final_state = true, .state_v_first = V % 2 == 1},
                       .seed = static_cast<std::uint64_t>(K * 1000 + V)})
            .args);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, KdaKeysOnGpu,
                         testing::Values(1, 2, 3, 7, 8, 16, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129,
                                         160, 192, 200, 255, 256),
                         [](const auto& test) { return "K" + std::to_string(test.param); });

class KdaShapesOnGpu : public fla_test::GpuTest {};

TEST_F(KdaShapesOnGpu, EveryLengthAroundAChunk) {
  for (const std::int64_t T :
       {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 127, 128, 129, 1000}) {
    expect_agreement_on_gpu(
        make_kda_case({.B = 2, .T = T, .H = 1, .K = 64, .V = 64, .data = DataKind::mixed}).args);
  }
}

TEST_F(KdaShapesOnGpu, GroupedValues) {
  for (const std::int64_t heads : {1, 2, 3}) {
    for (const std::int64_t group : {1, 2, 5}) {
      for (const std::int64_t tokens : {1, 50}) {
        expect_agreement_on_gpu(
            make_kda_case({.B = 2, .T = tokens, .H = heads, .HV = heads * group, .K = 64, .V = 64}).args);
      }
    }
  }
}

TEST_F(KdaShapesOnGpu, PackedSequencesWithEmptyOnes) {
  const std::vector<std::vector<std::int64_t>> packings{
      {0, 5, 9},           {5, 0, 9},
      {5, 9, 0},           {0},
      {0, 0, 0},           {17},
      {1, 1, 1, 1},        {64, 1, 65, 16},
      {0, 0, 3, 0},        {1, 33, 0, 0, 64},
      {31, 32, 100, 0, 7}, {0, 1, 33, 0, 0, 64, 5, 31, 32, 100, 0}};
  for (const auto& lengths : packings) {
    for (const DType index : {DType::i32, DType::i64}) {
      expect_agreement_on_gpu(make_kda_case({.H = 2,
                                             .HV = 4,
                                             .K = 64,
                                             .V = 40,
                                             .lengths = lengths,
                                             .dtype = DType::bf16,
                                             .gate_dtype = DType::bf16,
                                             .index_dtype = index,
                                             .data = DataKind::slow,
                                             .initial_state = index == DType::i32,
                                             .fused_projection = true})
                                  .args);
    }
  }
}

TEST_F(KdaShapesOnGpu, SequencesByTheHundred) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 0; n < 700; ++n) lengths.push_back(n % 5);
  expect_agreement_on_gpu(make_kda_case({.H = 1, .K = 32, .V = 32, .lengths = lengths}).args);
}

TEST_F(KdaShapesOnGpu, AnyStridesAreHonouredAndNothingIsWrittenAround) {
  fla::cases::Random random(3);
  for (int round = 0; round < 24; ++round) {
    KdaSpec spec{.B = 2,
                 .T = round % 3 == 0 ? 1 : 45,
                 .H = 2,
                 .HV = 4,
                 .K = round % 2 == 0 ? 64 : 36,
                 .V = 64,
                 .dtype = round % 4 == 1 ? DType::f16 : DType::bf16,
                 .options = {.output_final_state = true, .use_gate_in_kernel = true}};
    if (round % 4 == 2) spec.lengths = {3, 0, 41};
    const KdaCase call = make_kda_case(spec);
    const Surrounded strided(call.args, [&](const fla::Argument&, int rank) {
      return round % 3 == 1 ? Layout::padded(rank) : Layout::random(rank, random);
    });
    expect_agreement_on_gpu(strided.args);
    for (const LaidOut& output : strided.outputs) EXPECT_TRUE(output.intact_around());
  }
}

TEST_F(KdaShapesOnGpu, InputsMayRepeatElements) {
  KdaCase call = make_kda_case({.B = 2, .T = 70, .H = 2, .K = 64, .V = 64});
  const std::array<float, 1> beta{0.5f};
  std::array<float, 64> gate{};
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = -0.01f * static_cast<float>(i);
  constexpr std::array<std::int64_t, 3> beta_shape{2, 70, 2}, still{0, 0, 0};
  constexpr std::array<std::int64_t, 4> gate_shape{2, 70, 2, 64}, one_row{0, 0, 0, 1};
  call.args.beta = {beta.data(), DType::f32, beta_shape, still};
  call.args.g = {gate.data(), DType::f32, gate_shape, one_row};
  expect_agreement_on_gpu(call.args);
}

TEST_F(KdaShapesOnGpu, FinalStateMayHaveAnotherDtypeThanTheInitialOne) {
  for (const std::int64_t tokens : {1, 40}) {
    const KdaCase call = make_kda_case({.B = 2, .T = tokens, .H = 2, .K = 64, .V = 64});
    KdaArgs args = call.args;
    const LaidOut narrow(args.initial_state.shape(), DType::bf16);
    args.final_state = narrow;
    expect_agreement_on_gpu(args);
  }
}

/// The call without its last sequence, whose tokens then belong to nobody.
KdaArgs without_last_sequence(KdaArgs args) {
  args.cu_seqlens = args.cu_seqlens.slice(0, 0, args.cu_seqlens.size(0) - 1);
  for (TensorView* states : {&args.initial_state, &args.final_state}) {
    if (states->defined()) *states = states->slice(0, 0, states->size(0) - 1);
  }
  return args;
}

/// Only the tokens that sequences have.
KdaArgs first_tokens(KdaArgs args, std::int64_t tokens) {
  for (TensorView* tensor : {&args.q, &args.k, &args.v, &args.g, &args.beta, &args.out}) {
    if (tensor->defined()) *tensor = tensor->slice(1, 0, tokens);
  }
  return args;
}

TEST_F(KdaShapesOnGpu, TokensBeyondTheLastSequenceAreNeitherReadNorWritten) {
  constexpr std::int64_t kTokens = 100, kBeyond = 13;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const KdaCase call = make_kda_case({.H = 2,
                                        .HV = 4,
                                        .K = 64,
                                        .V = 64,
                                        .lengths = {0, 1, 33, 0, 66, kBeyond},
                                        .dtype = dtype,
                                        .data = DataKind::slow});
    for (const auto& [name, run] : kEveryWay) {
      const Surrounded whole(call.args);
      for (const TensorView* tensor :
           {&whole.args.q, &whole.args.k, &whole.args.v, &whole.args.g, &whole.args.beta}) {
        const TensorView beyond = tensor->slice(1, kTokens, kBeyond);
        std::memset(beyond.data(), 0xff, static_cast<std::size_t>(beyond.extent().end));  // NaN
      }
      const KdaArgs args = without_last_sequence(whole.args);
      const auto reference = fla::cases::reference_of(first_tokens(args, kTokens));
      DeviceCall there(args, kGpu);
      const KdaResult result = there.bring_back(run(there.args()));
      EXPECT_EQ(there.damage(), "") << name;
      const KdaResult read{fla::Tensor::over(result.o.view().slice(1, 0, kTokens)), result.final_state};
      fla_test::expect_within_bars(read, reference, args, name);
      for (const std::byte byte : fla::conformance::bytes_of(result.o.view().slice(1, kTokens, kBeyond)))
        ASSERT_EQ(byte, std::byte{0xff}) << name;
    }
  }
}

TEST_F(KdaShapesOnGpu, MoreSequencesThanAGridHasRows) {
  expect_agreement_on_gpu(make_kda_case({.B = 70'000, .T = 1, .H = 1, .K = 8, .V = 8}).args);
  std::vector<std::int64_t> lengths(70'000, 0);
  for (std::size_t n = 0; n < lengths.size(); n += 1000) lengths[n] = 3;
  lengths.back() = 2;
  expect_agreement_on_gpu(make_kda_case({.H = 1, .K = 8, .V = 8, .lengths = lengths}).args);
}

TEST_F(KdaShapesOnGpu, MoreHeadsThanAGridHasRows) {
  expect_agreement_on_gpu(make_kda_case({.T = 3, .H = 70'000, .K = 4, .V = 4}).args);
}

TEST_F(KdaShapesOnGpu, DecodesMoreSequencesThanAGridHasRows) {
  // All sequences are the same one: inputs may repeat elements.
  constexpr std::int64_t kSequences = 70'000;
  const KdaCase one = make_kda_case({.T = 1, .H = 1, .K = 64, .V = 64, .options = {}});
  KdaArgs many = one.args;
  for (TensorView* tensor : {&many.q, &many.k, &many.v, &many.g, &many.beta, &many.initial_state}) {
    std::vector<std::int64_t> shape(tensor->shape().begin(), tensor->shape().end()),
        strides(tensor->strides().begin(), tensor->strides().end());
    shape[0] = kSequences;
    strides[0] = 0;
    *tensor = TensorView(tensor->data(), tensor->dtype(), shape, strides);
  }
  for (const auto& [name, run] : kEveryWay) {
    DeviceCall alone(one.args, kGpu), together(many, kGpu);
    const KdaResult expected = alone.bring_back(run(alone.args()));
    const KdaResult result = together.bring_back(run(together.args()));
    const std::vector<std::byte> row = fla::conformance::bytes_of(expected.o);
    for (std::int64_t n = 0; n < kSequences; ++n) {
      ASSERT_EQ(std::memcmp(result.o.as<std::byte>() + n * static_cast<std::int64_t>(row.size()), row.data(),
                            row.size()),
                0)
          << name << ", sequence " << n;
    }
  }
}

}  // namespace
