#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "fla/core/half.h"
#include "tests/ops/kda/every_way.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::TensorView;
using fla::cases::KdaCase;
using fla::cases::make_kda_case;
using fla::conformance::LaidOut;
using fla::conformance::Layout;
using fla_test::expect_agreement;
using fla_test::kEveryWay;

TEST(KdaLayouts, GroupedValues) {
  for (const std::int64_t heads : {1, 2, 3}) {
    for (const std::int64_t group : {1, 2, 4}) {
      expect_agreement(make_kda_case({.T = 18, .H = heads, .HV = heads * group, .K = 8, .V = 12}).args);
    }
  }
}

TEST(KdaLayouts, PackedSequencesWithEmptyOnes) {
  const std::vector<std::vector<std::int64_t>> packings{
      {0, 5, 9}, {5, 0, 9}, {5, 9, 0}, {0, 0, 3, 0}, {0}, {0, 0, 0}, {17}, {1, 1, 1, 1}, {64, 1, 65, 16}};
  for (const auto& lengths : packings) {
    for (const DType index : {DType::i32, DType::i64}) {
      for (const bool state : {false, true}) {
        expect_agreement(
            make_kda_case(
                {.H = 2, .K = 16, .V = 16, .lengths = lengths, .index_dtype = index, .initial_state = state})
                .args);
      }
    }
  }
}

TEST(KdaLayouts, EmptySequenceKeepsItsState) {
  const KdaCase call = make_kda_case({.H = 1, .K = 8, .V = 8, .lengths = {0, 3, 0}});
  for (const auto& [name, run] : kEveryWay) {
    const KdaResult result = run(call.args);
    for (const std::int64_t n : {0, 2}) {
      EXPECT_EQ(fla::conformance::bytes_of(result.final_state.view().slice(0, n, 1)),
                fla::conformance::bytes_of(call.args.initial_state.slice(0, n, 1)))
          << name;
    }
  }
}

TEST(KdaLayouts, PackedStartsMayBeStrided) {
  KdaCase call = make_kda_case({.H = 1, .K = 8, .V = 8, .lengths = {4, 0, 13}});
  constexpr std::array<std::int64_t, 1> shape{4}, strides{3};
  std::array<std::int64_t, 10> spread{};
  for (std::size_t i = 0; i < 4; ++i) spread[3 * i] = call.args.cu_seqlens.as<std::int64_t>()[i];
  call.args.cu_seqlens = {spread.data(), DType::i64, shape, strides};
  expect_agreement(call.args);
}

TEST(KdaLayouts, SlicesOfAFusedProjection) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    expect_agreement(make_kda_case({.B = 2,
                                    .T = 35,
                                    .H = 2,
                                    .HV = 4,
                                    .K = 16,
                                    .V = 24,
                                    .dtype = dtype,
                                    .gate_dtype = dtype,
                                    .fused_projection = true})
                         .args);
  }
}

TEST(KdaLayouts, OutputMayBeASliceOfTheSameFusedBuffer) {
  KdaCase call = make_kda_case({.B = 2, .T = 20, .H = 1, .K = 8, .V = 8});
  std::vector<float> fused(2 * 20 * 16);
  const TensorView buffer(fused.data(), DType::f32, {2, 20, 1, 16});
  const TensorView v = buffer.slice(3, 0, 8), out = buffer.slice(3, 8, 8);
  const TensorView source = call.args.v;
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j < 8; ++j)
      fused[static_cast<std::size_t>(i * 16 + j)] = source.as<float>()[i * 8 + j];
  }
  call.args.v = v;
  call.args.out = out;
  expect_agreement(call.args);
}

TEST(KdaLayouts, AnyStridesAreHonoured) {
  fla::cases::Random random(3);
  const KdaCase call = make_kda_case({.B = 2,
                                      .T = 19,
                                      .H = 2,
                                      .HV = 4,
                                      .K = 12,
                                      .V = 20,
                                      .options = {.output_final_state = true, .use_gate_in_kernel = true}});
  for (int round = 0; round < 20; ++round) {
    KdaArgs args = call.args;
    std::vector<LaidOut> memory;
    memory.reserve(16);
    for (const fla::Argument& argument : KdaArgs::arguments()) {
      if (!argument.is_tensor() || !argument.tensor(&args).defined()) continue;
      TensorView& tensor = argument.tensor(static_cast<void*>(&args));
      memory.push_back(LaidOut::copy_of(tensor, Layout::random(tensor.rank(), random)));
      tensor = memory.back().view();
    }
    expect_agreement(args);
  }
}

TEST(KdaLayouts, TokensMayRunBackwards) {
  KdaCase call = make_kda_case({.T = 30, .H = 2, .K = 16, .V = 16});
  const LaidOut q = LaidOut::copy_of(call.args.q, {.reversed = {false, true}});
  const LaidOut v = LaidOut::copy_of(call.args.v, {.reversed = {false, true, true, true}});
  call.args.q = q;
  call.args.v = v;
  expect_agreement(call.args);
}

TEST(KdaLayouts, InputsMayRepeatElements) {
  KdaCase call = make_kda_case({.B = 2, .T = 10, .H = 2, .K = 8, .V = 8});
  const std::array<float, 1> beta{0.5f};
  const std::array<float, 8> gate{-0.1f, -0.2f, -0.3f, -0.4f, 0, 0, 0, -9};
  constexpr std::array<std::int64_t, 3> beta_shape{2, 10, 2}, still{0, 0, 0};
  constexpr std::array<std::int64_t, 4> gate_shape{2, 10, 2, 8}, one_row{0, 0, 0, 1};
  call.args.beta = {beta.data(), DType::f32, beta_shape, still};
  call.args.g = {gate.data(), DType::f32, gate_shape, one_row};
  expect_agreement(call.args);
}

/// The state with its last two axes exchanged, over the same memory.
TensorView turned(const TensorView& s) {
  const std::array<std::int64_t, 4> shape{s.size(0), s.size(1), s.size(3), s.size(2)};
  const std::array<std::int64_t, 4> strides{s.stride(0), s.stride(1), s.stride(3), s.stride(2)};
  return {s.data(), s.dtype(), shape, strides};
}

TEST(KdaLayouts, BothStateLayoutsHoldTheSameNumbers) {
  const KdaCase k_first = make_kda_case({.B = 2, .T = 21, .H = 2, .K = 12, .V = 20});
  const LaidOut state = LaidOut::copy_of(turned(k_first.args.initial_state));
  KdaArgs v_first = k_first.args;
  v_first.state_v_first = true;
  v_first.initial_state = state;
  expect_agreement(v_first);
  const KdaResult a = fla::original::chunk_kda(k_first.args), b = fla::original::chunk_kda(v_first);
  EXPECT_TRUE(fla::conformance::same_bits(a, {b.o, fla::Tensor::over(turned(b.final_state))}));
}

TEST(KdaLayouts, StatesMayBeBf16) {
  for (const bool v_first : {false, true}) {
    const KdaCase call = make_kda_case({.T = 25,
                                        .H = 2,
                                        .K = 16,
                                        .V = 24,
                                        .state_dtype = DType::bf16,
                                        .options = {.output_final_state = true, .state_v_first = v_first}});
    expect_agreement(call.args);
    EXPECT_EQ(fla::kda(call.args).final_state.dtype(), DType::bf16) << "like initial_state";
  }
}

TEST(KdaLayouts, FinalStateMayHaveAnotherDtypeThanTheInitialOne) {
  const KdaCase call = make_kda_case({.T = 25, .H = 2, .K = 16, .V = 24});
  KdaArgs args = call.args;
  const LaidOut narrow(args.initial_state.shape(), DType::bf16);
  args.final_state = narrow;
  expect_agreement(args);
}

TEST(KdaOutputs, AreWrittenIntoTheCallersMemory) {
  const KdaCase call = make_kda_case({.B = 2, .T = 23, .H = 2, .K = 16, .V = 24});
  const auto reference = fla::cases::reference_of(call.args);
  for (const auto& [name, run] : kEveryWay) {
    const LaidOut out(call.args.v.shape(), DType::f32, Layout::padded(4));
    const LaidOut state(call.args.initial_state.shape(), DType::f32, Layout::padded(4));
    KdaArgs args = call.args;
    args.out = out;
    args.final_state = state;
    const KdaResult result = run(args);
    EXPECT_EQ(result.o.data(), out.view().data()) << name;
    EXPECT_EQ(result.final_state.data(), state.view().data()) << name;
    EXPECT_EQ(fla::conformance::disagreement(result, reference, args), "") << name;
    EXPECT_TRUE(out.intact_around() && state.intact_around()) << name;
  }
}

TEST(KdaOutputs, StateMayBeUpdatedInPlace) {
  for (const std::int64_t tokens : {0, 1, 23}) {
    for (const bool v_first : {false, true}) {
      const KdaCase call = make_kda_case({.B = 2,
                                          .T = tokens,
                                          .H = 2,
                                          .K = 16,
                                          .V = 24,
                                          .options = {.output_final_state = true, .state_v_first = v_first}});
      const auto reference = fla::cases::reference_of(call.args);
      for (const auto& [name, run] : kEveryWay) {
        const LaidOut state = LaidOut::copy_of(call.args.initial_state, Layout::padded(4));
        KdaArgs args = call.args;
        args.initial_state = args.final_state = state;
        const KdaResult result = run(args);
        EXPECT_EQ(result.final_state.data(), state.view().data()) << name;
        EXPECT_EQ(fla::conformance::disagreement(result, reference, args), "") << name;
        EXPECT_TRUE(state.intact_around()) << name;
      }
    }
  }
}

TEST(KdaOutputs, GivenFinalStateIsReturnedWithoutAskingForIt) {
  const KdaCase call = make_kda_case({.T = 4, .H = 1, .K = 8, .V = 8, .options = {}});
  const LaidOut state(std::array<std::int64_t, 4>{1, 1, 8, 8}, DType::f32);
  KdaArgs args = call.args;
  args.final_state = state;
  expect_agreement(args);
}

TEST(KdaOutputs, StateIsEmptyWhenItWasNotAskedFor) {
  const KdaCase call = make_kda_case({.T = 4, .H = 1, .K = 8, .V = 8, .options = {}});
  for (const auto& [name, run] : kEveryWay) EXPECT_FALSE(run(call.args).final_state.defined()) << name;
}

}  // namespace
