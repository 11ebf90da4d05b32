#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>

#include "tests/backends/tilelang/tilelang_test.h"
#include "tools/cases/random.h"
#include "tools/conformance/pooled_call.h"
#include "tools/conformance/surrounded.h"

/// What tilelang computes, against float64: a bar for every kind of data and every instance, and every option
/// and layout.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::cases::DataKind;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla::conformance::Layout;
using fla::conformance::PooledCall;
using fla::conformance::PoolWrites;
using fla::conformance::Surrounded;
using fla_test::Errors;
using fla_test::errors_of;
using fla_test::specs_of_instances;
using fla_test::tiled;

struct Bars {
  double o, final_state;
};

/// o is rounded to its dtype, which costs 1.7e-3 in bf16 and 2.1e-4 in f16.
Bars bars_of(const KdaArgs& args) { return {args.v.dtype() == DType::bf16 ? 2.5e-3 : 1e-3, 1e-3}; }
constexpr Bars kRepeatedKeys{5e-3, 5e-3};

void expect_within(const Bars& bars, const KdaArgs& args) {
  const Errors errors = errors_of(args);
  EXPECT_LE(errors.o, bars.o) << fla::conformance::describe(args);
  EXPECT_LE(errors.final_state, bars.final_state) << fla::conformance::describe(args);
}
void expect_within_bars(const KdaArgs& args) { expect_within(bars_of(args), args); }

class TileLangData : public fla_test::WithTileLang<testing::TestWithParam<DataKind>> {
 protected:
  Bars bars(const KdaArgs& args) const {
    return GetParam() == DataKind::repeated_keys ? kRepeatedKeys : bars_of(args);
  }
};

TEST_P(TileLangData, IsWithinTheBarsInEveryInstance) {
  for (KdaSpec spec : specs_of_instances(200)) {
    spec.data = GetParam();
    const KdaCase made = make_kda_case(spec);
    expect_within(bars(made.args), made.args);
  }
}

TEST_P(TileLangData, IsWithinTheBarsWithAGateAToken) {
  const fla::ScopedPolicy required(
      {.enable = {{"tilelang", true}}, .require = {{"gated_delta_rule", "tilelang"}}});
  for (const KdaSpec& like : specs_of_instances(200)) {
    const auto made = fla::cases::make_case<fla::GatedDeltaRuleArgs>({.B = like.B,
                                                                      .T = like.T,
                                                                      .H = like.H,
                                                                      .HV = like.HV,
                                                                      .K = like.K,
                                                                      .V = like.V,
                                                                      .lengths = like.lengths,
                                                                      .dtype = like.dtype,
                                                                      .gate_dtype = like.gate_dtype,
                                                                      .data = GetParam()});
    fla::conformance::DeviceCall call(made.args, fla_test::kGpu);
    const fla::RecurrenceResult result = call.bring_back(fla::chunk_gated_delta_rule(call.args()));
    EXPECT_EQ(call.damage(), "");
    const fla::cases::Errors errors = fla::cases::errors_of(result, fla::cases::reference_of(made.args));
    const bool repeated = GetParam() == DataKind::repeated_keys;
    EXPECT_LE(errors.o, repeated                    ? 5e-3
                        : like.dtype == DType::bf16 ? 2.5e-3
                                                    : 1e-3)
        << fla::conformance::describe(made.args);
    EXPECT_LE(errors.final_state, repeated ? 5e-3 : 1e-3) << fla::conformance::describe(made.args);
  }
}

TEST_P(TileLangData, IsWithinTheBarsInEveryInstanceWithEitherGateInTheKernel) {
  for (KdaSpec spec : specs_of_instances(150)) {
    spec.data = GetParam();
    spec.options = {.output_final_state = true,
                    .use_qk_l2norm_in_kernel = true,
                    .use_gate_in_kernel = true,
                    .use_beta_sigmoid_in_kernel = true,
                    .state_v_first = true};
    const KdaCase unbounded = make_kda_case(spec);
    expect_within(bars(unbounded.args), unbounded.args);
    spec.options.lower_bound = -5.0f;
    spec.options.safe_gate = true;
    const KdaCase bounded = make_kda_case(spec);
    expect_within(bars(bounded.args), bounded.args);
  }
}

TEST_P(TileLangData, IsWithinTheBarsOverManyChunks) {
  for (const std::int64_t K : {64, 128, 256}) {
    const KdaCase made =
        make_kda_case({.T = 4096, .H = 1, .K = K, .V = 64, .dtype = DType::bf16, .data = GetParam()});
    expect_within(bars(made.args), made.args);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TileLangData, testing::ValuesIn(fla::cases::kAllDataKinds),
                         [](const auto& test) { return std::string(fla::cases::name_of(test.param)); });

class TileLangIsRight : public fla_test::TileLangTest {};

TEST_F(TileLangIsRight, ForAnyNumberOfTokens) {
  for (const std::int64_t T : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 257}) {
    for (const std::int64_t K : {64, 128, 256})
      expect_within_bars(make_kda_case({.B = 2, .T = T, .H = 1, .K = K, .V = 64, .dtype = DType::bf16}).args);
  }
}

TEST_F(TileLangIsRight, ForPackedSequencesAlsoEmptyOnes) {
  for (const DType index : {DType::i32, DType::i64}) {
    const KdaCase made = make_kda_case({.H = 2,
                                        .HV = 4,
                                        .K = 128,
                                        .V = 128,
                                        .lengths = {0, 70, 0, 0, 130, 1, 64, 63, 65, 0},
                                        .dtype = DType::bf16,
                                        .index_dtype = index,
                                        .initial_state = index == DType::i32});
    expect_within_bars(made.args);
    EXPECT_TRUE(fla::conformance::same_bits(tiled(made.args, DeviceIndices::on_device),
                                            tiled(made.args, DeviceIndices::on_host)));
  }
}

TEST_F(TileLangIsRight, ForAThousandPackedSequences) {
  std::vector<std::int64_t> lengths(1000);
  for (std::size_t n = 0; n < lengths.size(); ++n) lengths[n] = static_cast<std::int64_t>(n * 7 % 11);
  expect_within_bars(
      make_kda_case(
          {.H = 1, .K = 64, .V = 128, .lengths = lengths, .dtype = DType::bf16, .initial_state = false})
          .args);
}

TEST_F(TileLangIsRight, AlsoForAPackedSequenceAlone) {
  const std::vector<std::int64_t> lengths{100, 65, 0, 300};
  const KdaCase made = make_kda_case(
      {.H = 1, .HV = 2, .K = 128, .V = 64, .lengths = lengths, .dtype = DType::bf16, .data = DataKind::slow});
  const KdaResult together = tiled(made.args);
  std::int64_t begin = 0, n = 0;
  for (const std::int64_t tokens : lengths) {
    KdaArgs one = made.args;
    for (fla::TensorView* tensor : {&one.q, &one.k, &one.v, &one.g, &one.beta})
      *tensor = tensor->slice(1, begin, tokens);
    one.initial_state = one.initial_state.slice(0, n, 1);
    one.cu_seqlens = {};
    const KdaResult part{fla::Tensor::over(together.o.view().slice(1, begin, tokens)),
                         fla::Tensor::over(together.final_state.view().slice(0, n, 1))};
    EXPECT_TRUE(fla::conformance::same_bits(part, tiled(one))) << n;
    begin += tokens;
    ++n;
  }
}

TEST_F(TileLangIsRight, ForSlicesOfAFusedProjection) {
  for (const bool packed : {false, true}) {
    KdaSpec spec{.T = 150,
                 .H = 3,
                 .K = 128,
                 .V = 128,
                 .dtype = DType::bf16,
                 .gate_dtype = DType::bf16,
                 .fused_projection = true};
    if (packed) spec.lengths = {65, 0, 85};
    const KdaCase made = make_kda_case(spec);
    EXPECT_FALSE(made.args.q.is_contiguous());
    expect_within_bars(made.args);
  }
}

TEST_F(TileLangIsRight, WithGapsInEveryTensor) {
  const KdaCase made =
      make_kda_case({.B = 2, .T = 100, .H = 2, .HV = 4, .K = 128, .V = 128, .dtype = DType::f16});
  const Surrounded wide(made.args, [](const fla::Argument&, int rank) {
    Layout layout;
    if (rank == 4) layout.gaps = {24, 40, 8, 0, 0};
    return layout;
  });
  expect_within_bars(wide.args);
  for (const auto& output : wide.outputs) EXPECT_TRUE(output.intact_around());
}

TEST_F(TileLangIsRight, WithHeadsOutsideOfTokens) {
  const KdaCase made = make_kda_case({.B = 2, .T = 100, .H = 2, .K = 256, .V = 128, .dtype = DType::bf16});
  const Surrounded turned(made.args, [](const fla::Argument&, int rank) {
    Layout layout;
    if (rank == 4) layout.order = {0, 2, 1, 3, 4};
    if (rank == 3) layout.order = {2, 0, 1, 3, 4};
    return layout;
  });
  expect_within_bars(turned.args);
}

TEST_F(TileLangIsRight, WithStatesInAPool) {
  std::uint64_t turn = 0;
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{}, {64, 30, 0, 64, 5, 80}}) {
    for (const auto writes :
         {PoolWrites::in_place, PoolWrites::moved, PoolWrites::apart, PoolWrites::nowhere}) {
      ++turn;
      KdaSpec spec{.B = 5,
                   .T = 90,
                   .H = 1,
                   .HV = 2,
                   .K = turn % 3 == 0 ? 256 : 64 * static_cast<std::int64_t>(turn % 3),
                   .V = 128,
                   .lengths = lengths,
                   .dtype = DType::bf16};
      spec.options.state_v_first = turn % 2 == 0;
      const KdaCase made = make_kda_case(spec);
      const auto reference = fla::cases::reference_of(made.args);
      for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
        const PooledCall pooled(made.args,
                                {.writes = writes, .index_dtype = turn % 3 == 0 ? DType::i32 : DType::i64});
        EXPECT_EQ(pooled.wrong(tiled(pooled.args(), indices), reference), "");
      }
    }
  }
}

TEST_F(TileLangIsRight, WithEveryOption) {
  for (const bool v_first : {false, true}) {
    for (const bool norm : {false, true}) {
      for (const bool sigmoid : {false, true}) {
        KdaSpec spec{
            .T = 140, .H = 1, .HV = 3, .K = 128, .V = 128, .dtype = DType::bf16, .initial_state = norm};
        spec.options = {.scale = sigmoid ? -0.7f : 0.2f,
                        .output_final_state = v_first || norm,
                        .use_qk_l2norm_in_kernel = norm,
                        .use_beta_sigmoid_in_kernel = sigmoid,
                        .allow_neg_eigval = sigmoid,
                        .state_v_first = v_first};
        expect_within_bars(make_kda_case(spec).args);
      }
    }
  }
}

TEST_F(TileLangIsRight, WithoutARateOrWithoutABias) {
  KdaSpec spec{.T = 100, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16};
  spec.options = {.output_final_state = true, .use_gate_in_kernel = true, .lower_bound = -5.0f};
  KdaCase made = make_kda_case(spec);
  const fla::TensorView bias = made.args.dt_bias;
  made.args.A_log = {};
  expect_within_bars(made.args);
  made.args.dt_bias = {};
  expect_within_bars(made.args);
  made.args.dt_bias = fla::TensorView(bias.data(), bias.dtype(), {2, 128});
  expect_within_bars(made.args);
}

TEST_F(TileLangIsRight, WhereInfiniteDecaysForgetEverything) {
  for (const DType gate : {DType::f32, DType::bf16}) {
    const KdaCase made = make_kda_case({.T = 150,
                                        .H = 1,
                                        .K = 128,
                                        .V = 128,
                                        .dtype = DType::bf16,
                                        .gate_dtype = gate,
                                        .data = DataKind::slow});
    fla::cases::Random random(3);
    for (std::int64_t i = 0; i < made.args.g.numel(); ++i) {
      if (!random.chance(0.05f)) continue;
      if (gate == DType::f32) {
        made.args.g.as<float>()[i] = -std::numeric_limits<float>::infinity();
      } else {
        made.args.g.as<std::uint16_t>()[i] = 0xff80;  // -inf
      }
    }
    expect_within_bars(made.args);
  }
}

TEST_F(TileLangIsRight, WhereALargeStateIsKept) {
  const KdaCase made =
      make_kda_case({.T = 600, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .data = DataKind::slow});
  auto* const state = made.args.initial_state.as<float>();
  for (std::int64_t i = 0; i < made.args.initial_state.numel(); ++i) state[i] *= 100;
  expect_within_bars(made.args);
}

}  // namespace
