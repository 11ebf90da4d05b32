#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "fla/ops/delta_rule/delta_rule.h"
#include "fla/ops/gated_delta_rule/gated_delta_rule.h"
#include "fla/ops/gla/gla.h"
#include "fla/ops/lightning_attn/lightning_attn.h"
#include "fla/ops/linear_attn/linear_attn.h"
#include "fla/ops/retention/retention.h"
#include "fla/ops/simple_gla/simple_gla.h"
#include "tests/backends/flash_kda/flash_test.h"
#include "tests/ops/kda/extremes.h"
#include "tools/conformance/pooled_call.h"
#include "tools/conformance/surrounded.h"

/// What flash_kda computes, against float64: a bar for every kind of data, and every option and layout.
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
using fla_test::flashed;
using fla_test::kGpu;

struct Bars {
  double o, final_state;
};
constexpr Bars kUsual{3.5e-3, 1e-3}, kOfF16{2e-3, 1e-3}, kRepeatedKeys{5e-3, 5e-3};

void expect_within(const Bars& bars, const KdaArgs& args) {
  const Errors errors = errors_of(args);
  EXPECT_LE(errors.o, bars.o) << fla::conformance::describe(args);
  EXPECT_LE(errors.final_state, bars.final_state) << fla::conformance::describe(args);
}

class FlashKdaData : public fla_test::OnHopper<testing::TestWithParam<std::tuple<DataKind, DType>>> {
 protected:
  KdaSpec spec(std::int64_t T) const {
    const auto& [data, dtype] = GetParam();
    return {.T = T, .H = 2, .K = 128, .V = 128, .dtype = dtype, .data = data};
  }
  Bars bars() const {
    const auto& [data, dtype] = GetParam();
    return data == DataKind::repeated_keys ? kRepeatedKeys : dtype == DType::f16 ? kOfF16 : kUsual;
  }
};

TEST_P(FlashKdaData, IsWithinTheBarsWithGatesGiven) {
  expect_within(bars(), make_kda_case(spec(200)).args);
  KdaSpec coarse = spec(321);
  coarse.gate_dtype = coarse.dtype;
  expect_within(bars(), make_kda_case(coarse).args);
}

TEST_P(FlashKdaData, IsWithinTheBarsWithEitherGateInTheKernel) {
  KdaSpec inside = spec(330);
  inside.HV = 4;
  inside.gate_dtype = inside.dtype;
  inside.options = {.output_final_state = true,
                    .use_qk_l2norm_in_kernel = true,
                    .use_gate_in_kernel = true,
                    .use_beta_sigmoid_in_kernel = true,
                    .state_v_first = true};
  expect_within(bars(), make_kda_case(inside).args);
  inside.options.lower_bound = -5.0f;
  inside.options.safe_gate = true;
  expect_within(bars(), make_kda_case(inside).args);
}

TEST_P(FlashKdaData, IsWithinTheBarsOverManyChunks) {
  KdaSpec longer = spec(4096);
  longer.H = 1;
  expect_within(bars(), make_kda_case(longer).args);
}

/// chunk_<op> by the op's own backend, as exact as kda.
template <class Args>
void expect_right(fla::RecurrenceResult (*chunk)(const Args&), const fla::cases::CaseSpec<Args>& spec,
                  const Bars& bars) {
  const char* const backend = Args::kOp.rule == fla::Rule::delta         ? "flash_gdn"
                              : Args::kOp.gate == fla::GateKind::channel ? "flash_gla"
                                                                         : "flash_simple_gla";
  const fla::ScopedPolicy required({.require = {{std::string(Args::kOp.name), backend}}});
  const auto made = fla::cases::make_case<Args>(spec);
  DeviceCall call(made.args, kGpu);
  const fla::RecurrenceResult result = call.bring_back(chunk(call.args()));
  EXPECT_EQ(call.damage(), "");
  const Errors errors = fla::cases::errors_of(result, fla::cases::reference_of(made.args));
  EXPECT_LE(errors.o, bars.o) << fla::conformance::describe(made.args);
  EXPECT_LE(errors.final_state, bars.final_state) << fla::conformance::describe(made.args);
}

TEST_P(FlashKdaData, IsWithinTheBarsWithAGateAToken) {
  const auto& [data, dtype] = GetParam();
  fla::cases::CaseSpec<fla::GatedDeltaRuleArgs> spec{
      .B = 2, .T = 200, .H = 2, .HV = 4, .K = 128, .V = 128, .dtype = dtype, .data = data};
  expect_right(fla::chunk_gated_delta_rule, spec, bars());
  spec.gate_dtype = dtype;
  spec.B = 1, spec.K = 64, spec.lengths = {10, 70, 0, 300};
  spec.options.use_qk_l2norm_in_kernel = spec.options.use_gate_in_kernel = true;
  spec.options.use_beta_sigmoid_in_kernel = true;
  expect_right(fla::chunk_gated_delta_rule, spec, bars());
}

/// Whole heads, packed heads of which one size is 64, and a sequence long enough for segments.
template <class Args>
void expect_right_in_every_shape(fla::RecurrenceResult (*chunk)(const Args&), DataKind data, DType dtype,
                                 std::int64_t fla::cases::CaseSpec<Args>::*narrow, const Bars& bars) {
  fla::cases::CaseSpec<Args> spec{
      .B = 2, .T = 200, .H = 2, .HV = 4, .K = 128, .V = 128, .dtype = dtype, .data = data};
  expect_right(chunk, spec, bars);
  spec.gate_dtype = dtype;
  spec.B = 1, spec.*narrow = 64, spec.lengths = {10, 70, 0, 300};
  expect_right(chunk, spec, bars);
  spec.lengths = {}, spec.T = 3000, spec.H = spec.HV = 1, spec.*narrow = 128;
  expect_right(chunk, spec, bars);
}

TEST_P(FlashKdaData, IsWithinTheBarsWithoutADeltaRule) {
  const auto& [data, dtype] = GetParam();
  using Channels = fla::cases::CaseSpec<fla::GlaArgs>;
  using Tokens = fla::cases::CaseSpec<fla::SimpleGlaArgs>;
  expect_right_in_every_shape(fla::chunk_gla, data, dtype, &Channels::K, bars());
  expect_right_in_every_shape(fla::chunk_simple_gla, data, dtype, &Tokens::V, bars());
}

INSTANTIATE_TEST_SUITE_P(Kinds, FlashKdaData,
                         testing::Combine(testing::ValuesIn(fla::cases::kAllDataKinds),
                                          testing::Values(DType::bf16, DType::f16)),
                         [](const auto& test) {
                           return std::string(fla::cases::name_of(std::get<0>(test.param))) + "_" +
                                  std::string(fla::name_of(std::get<1>(test.param)));
                         });

class FlashKdaIsRight : public fla_test::FlashTest {};

TEST_F(FlashKdaIsRight, ToF16sToleranceForF16Inputs) {
  for (const std::int64_t size : {64, 128}) {
    KdaSpec spec{.T = 100, .H = 2, .K = size, .V = size, .dtype = DType::f16};
    spec.options.scale = 0.25f;
    expect_within(kOfF16, make_kda_case(spec).args);
    spec.T = 1000;
    expect_within(kOfF16, make_kda_case(spec).args);
  }
}

TEST_F(FlashKdaIsRight, WithoutGates) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    fla::cases::CaseSpec<fla::DeltaRuleArgs> spec{
        .B = 2, .T = 200, .H = 2, .HV = 4, .K = 128, .V = 128, .dtype = dtype};
    expect_right(fla::chunk_delta_rule, spec, kUsual);
    spec.B = 1, spec.K = 64, spec.lengths = {10, 70, 0, 300};
    spec.options.use_qk_l2norm_in_kernel = true;
    expect_right(fla::chunk_delta_rule, spec, kUsual);
    spec.lengths = {}, spec.T = 3000, spec.H = spec.HV = 1, spec.K = 128;  // cut into segments
    expect_right(fla::chunk_delta_rule, spec, kUsual);
  }
}

template <class Args>
void expect_right_without_gates_of_tokens(fla::RecurrenceResult (*chunk)(const Args&)) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    fla::cases::CaseSpec<Args> spec{.B = 2, .T = 200, .H = 2, .HV = 4, .K = 128, .V = 128, .dtype = dtype};
    expect_right(chunk, spec, kUsual);
    spec.options.state_v_first = true;
    spec.B = 1, spec.V = 64, spec.lengths = {10, 70, 0, 300};
    expect_right(chunk, spec, kUsual);
    spec.lengths = {}, spec.T = 3000, spec.H = spec.HV = 1, spec.V = 128;
    expect_right(chunk, spec, kUsual);
  }
}
TEST_F(FlashKdaIsRight, WithOneDecayAHead) {
  expect_right_without_gates_of_tokens(fla::chunk_retention);
  expect_right_without_gates_of_tokens(fla::chunk_lightning_attn);
}
TEST_F(FlashKdaIsRight, WithoutAnyDecay) { expect_right_without_gates_of_tokens(fla::chunk_linear_attn); }

TEST_F(FlashKdaIsRight, ForAnyNumberOfTokens) {
  for (const std::int64_t T : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 257}) {
    for (const DType dtype : {DType::bf16, DType::f16})
      expect_within(kUsual, make_kda_case({.B = 2, .T = T, .H = 1, .K = 128, .V = 128, .dtype = dtype}).args);
  }
}

/// As exactly as for plain numbers: f16's range is nobody's business but the kernels'.
TEST_F(FlashKdaIsRight, AtEveryMagnitude) {
  for (const fla_test::Magnitude& magnitude : fla_test::magnitudes_of(DType::bf16)) {
    SCOPED_TRACE(magnitude.name);
    const KdaCase made = make_kda_case({.T = 512, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16});
    fla_test::apply(magnitude, made.args);
    expect_within(kUsual, made.args);
  }
}

TEST_F(FlashKdaIsRight, ForHeadsOfOtherSizes) {
  for (const auto& [K, V] : {std::pair{64, 64}, {64, 128}, {128, 64}, {128, 192}, {64, 256}}) {
    SCOPED_TRACE("K=" + std::to_string(K) + " V=" + std::to_string(V));
    for (const DType dtype : {DType::bf16, DType::f16}) {
      KdaSpec spec{.B = 2, .T = 150, .H = 1, .HV = 2, .K = K, .V = V, .dtype = dtype, .gate_dtype = dtype};
      spec.options.use_qk_l2norm_in_kernel = true;
      expect_within(kUsual, make_kda_case(spec).args);
      spec.options.use_gate_in_kernel = true;
      spec.options.state_v_first = true;
      for (const DataKind data : {DataKind::random, DataKind::strong}) {
        spec.data = data;
        expect_within(kUsual, make_kda_case(spec).args);
      }
      spec.data = DataKind::slow;
      spec.lengths = {70, 0, 1300, 1};
      expect_within(kUsual, make_kda_case(spec).args);
      spec.options.use_beta_sigmoid_in_kernel = spec.options.allow_neg_eigval = true;
      expect_within(kUsual, make_kda_case(spec).args);
    }
  }
}

TEST_F(FlashKdaIsRight, ForPackedSequencesAlsoEmptyOnes) {
  for (const DType index : {DType::i32, DType::i64}) {
    const KdaCase made = make_kda_case({.H = 2,
                                        .HV = 4,
                                        .K = 128,
                                        .V = 128,
                                        .lengths = {0, 70, 0, 0, 130, 1, 64, 63, 65, 0},
                                        .dtype = DType::bf16,
                                        .index_dtype = index,
                                        .initial_state = index == DType::i32});
    expect_within(kUsual, made.args);
    EXPECT_TRUE(fla::conformance::same_bits(flashed(made.args, DeviceIndices::on_device),
                                            flashed(made.args, DeviceIndices::on_host)));
  }
}

TEST_F(FlashKdaIsRight, ForAThousandPackedSequences) {
  std::vector<std::int64_t> lengths(1000);
  for (std::size_t n = 0; n < lengths.size(); ++n) lengths[n] = static_cast<std::int64_t>(n * 7 % 11);
  expect_within(
      kUsual,
      make_kda_case(
          {.H = 1, .K = 128, .V = 128, .lengths = lengths, .dtype = DType::bf16, .initial_state = false})
          .args);
}

TEST_F(FlashKdaIsRight, ForSlicesOfAFusedProjection) {
  // Three heads and five columns of others: rows of a multiple of 8 elements, beta in the middle of one.
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
    expect_within(kUsual, made.args);
  }
}

TEST_F(FlashKdaIsRight, WithGapsInEveryTensor) {
  const KdaCase made =
      make_kda_case({.B = 2, .T = 100, .H = 2, .HV = 4, .K = 128, .V = 128, .dtype = DType::f16});
  const Surrounded wide(made.args, [](const fla::Argument&, int rank) {
    Layout layout;
    if (rank == 4) layout.gaps = {24, 40, 8, 0, 0};
    return layout;
  });
  expect_within(kUsual, wide.args);
  for (const auto& output : wide.outputs) EXPECT_TRUE(output.intact_around());
}

TEST_F(FlashKdaIsRight, WithHeadsOutsideOfTokens) {
  const KdaCase made = make_kda_case({.B = 2, .T = 100, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16});
  const Surrounded turned(made.args, [](const fla::Argument&, int rank) {
    Layout layout;
    if (rank == 4) layout.order = {0, 2, 1, 3, 4};
    if (rank == 3) layout.order = {2, 0, 1, 3, 4};
    return layout;
  });
  expect_within(kUsual, turned.args);
}

TEST_F(FlashKdaIsRight, WithStatesInAPool) {
  std::uint64_t turn = 0;
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{}, {64, 30, 0, 64, 5, 80}}) {
    for (const auto writes :
         {PoolWrites::in_place, PoolWrites::moved, PoolWrites::apart, PoolWrites::nowhere}) {
      ++turn;
      KdaSpec spec{
          .B = 5, .T = 90, .H = 1, .HV = 2, .K = 128, .V = 128, .lengths = lengths, .dtype = DType::bf16};
      spec.options.state_v_first = turn % 2 == 0;
      const KdaCase made = make_kda_case(spec);
      const auto reference = fla::cases::reference_of(made.args);
      for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
        const PooledCall pooled(made.args,
                                {.writes = writes, .index_dtype = turn % 3 == 0 ? DType::i32 : DType::i64});
        EXPECT_EQ(pooled.wrong(flashed(pooled.args(), indices), reference), "");
      }
    }
  }
}

TEST_F(FlashKdaIsRight, WithStatesThatAreSegmentsApart) {
  // Long enough to be cut, states read and written in the same place.
  const KdaCase made = make_kda_case(
      {.B = 2, .T = 2000, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .data = DataKind::slow});
  const auto reference = fla::cases::reference_of(made.args);
  for (const auto writes : {PoolWrites::in_place, PoolWrites::moved}) {
    const PooledCall pooled(made.args, {.writes = writes, .skips = false});
    EXPECT_EQ(pooled.wrong(flashed(pooled.args()), reference), "");
  }
}

TEST_F(FlashKdaIsRight, WithEveryOption) {
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
        expect_within(kUsual, make_kda_case(spec).args);
      }
    }
  }
}

TEST_F(FlashKdaIsRight, WithoutARateOrWithoutABias) {
  KdaSpec spec{.T = 100, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16};
  spec.options = {.output_final_state = true, .use_gate_in_kernel = true, .lower_bound = -5.0f};
  KdaCase made = make_kda_case(spec);
  const fla::TensorView bias = made.args.dt_bias;
  made.args.A_log = {};
  expect_within(kUsual, made.args);
  made.args.dt_bias = {};
  expect_within(kUsual, made.args);
  made.args.dt_bias = fla::TensorView(bias.data(), bias.dtype(), {2, 128});
  expect_within(kUsual, made.args);
}

TEST_F(FlashKdaIsRight, WhereInfiniteDecaysForgetEverything) {
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
    expect_within(kUsual, made.args);
  }
}

TEST_F(FlashKdaIsRight, WhereALargeStateIsKept) {
  const KdaCase made =
      make_kda_case({.T = 600, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .data = DataKind::slow});
  auto* const state = made.args.initial_state.as<float>();
  for (std::int64_t i = 0; i < made.args.initial_state.numel(); ++i) state[i] *= 100;
  expect_within(kUsual, made.args);
}

}  // namespace
