#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "fla/core/half.h"
#include "tests/emulation/flash_forward.h"
#include "tools/cases/accuracy.h"

/// Magnitudes far from 1, and numbers that are not finite: what backends/flash_kda/range.cuh is for.
namespace fla::emulation {
namespace {

using cases::DataKind;

Forward inside(std::int64_t T, DataKind data = DataKind::random) {
  Forward forward;
  forward.spec = {
      .T = T, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16, .gate_dtype = DType::bf16, .data = data};
  KdaArgs& options = forward.spec.options;
  options.output_final_state = true;
  options.use_gate_in_kernel = options.use_qk_l2norm_in_kernel = options.use_beta_sigmoid_in_kernel = true;
  if (data == DataKind::random) options.lower_bound = -5.0f;
  return forward;
}
/// Keys, gates and betas as they are given.
Forward given(std::int64_t T, DType dtype, DataKind data = DataKind::slow) {
  Forward forward;
  forward.spec = {.T = T, .H = 1, .K = 128, .V = 128, .dtype = dtype, .gate_dtype = DType::f32, .data = data};
  return forward;
}

float get(const TensorView& x, std::int64_t i) { return static_cast<float>(cases::element(x, i)); }
void put(const TensorView& x, std::int64_t i, float value) {
  switch (x.dtype()) {
    case DType::bf16: x.as<bf16>()[i] = from_float<bf16>(value); break;
    case DType::f16: x.as<f16>()[i] = from_float<f16>(value); break;
    default: x.as<float>()[i] = value;
  }
}
/// Tokens from `first` on, or all of a state.
void scale(const TensorView& x, float factor, std::int64_t first = 0) {
  for (std::int64_t i = first * x.stride(1); i < x.numel(); ++i) put(x, i, factor * get(x, i));
}

struct Case {
  const char* name;
  Forward forward;
  std::function<void(const KdaArgs&)> change;
  double o = 3.5e-3, state = 1e-3;
  friend void PrintTo(const Case& c, std::ostream* to) { *to << c.name; }
};

/// v and the first state times the same.
std::function<void(const KdaArgs&)> together(float factor) {
  return [factor](const KdaArgs& args) { scale(args.v, factor), scale(args.initial_state, factor); };
}
Forward passed(Forward forward) {
  forward.streams = 1;
  forward.depth = 3;
  return forward;
}
Forward with_small_heads(Forward forward) {
  forward.spec.K = forward.spec.V = 64;
  return forward;
}
Forward cut(Forward forward, std::int32_t segments) {
  forward.segments = segments;
  return forward;
}
/// The additive rule, keys and gates as they are given.
Forward additive(std::int64_t T, DataKind data = DataKind::slow, DType dtype = DType::bf16) {
  Forward forward = given(T, dtype, data);
  forward.rule = Rule::additive;
  return forward;
}
Forward with_token_gates(Forward forward) {
  forward.gates = GateKind::token;
  return forward;
}

std::vector<Case> all_cases() {
  const auto values = [](float factor) { return [factor](const KdaArgs& args) { scale(args.v, factor); }; };
  const auto states = [](float factor) {
    return [factor](const KdaArgs& args) { scale(args.initial_state, factor); };
  };
  const auto queries = [](float factor) { return [factor](const KdaArgs& args) { scale(args.q, factor); }; };
  /// The same recurrence, but for v.
  const auto keys = [](float factor) {
    return [factor](const KdaArgs& args) {
      scale(args.k, factor);
      scale(args.beta, 1 / factor / factor);
    };
  };
  return {
      {"Huge", passed(inside(130)), together(0x1p60f)},
      {"Tiny", passed(inside(130)), together(0x1p-60f)},
      {"NearTheEndOfF32", inside(70), together(0x1p120f)},
      {"HugeInSegments", cut(inside(250, DataKind::slow), 3), together(0x1p60f)},
      {"TinyInSegments", cut(inside(250, DataKind::slow), 3), together(0x1p-60f)},
      {"TinyValues", inside(130, DataKind::slow), values(1e-8f)},
      {"SmallValues", inside(192), values(1e-6f)},
      {"LargeValues", inside(130, DataKind::slow), values(1e6f)},
      {"HugeValues", inside(192), values(1e8f)},
      {"LargeFirstState", inside(64), states(1e6f)},
      {"LargeFirstStateThatStays", inside(130, DataKind::slow), states(1e6f)},
      {"TinyFirstState", inside(70, DataKind::slow), states(1e-8f)},
      {"TinyFirstStateAlone", inside(70, DataKind::slow),
       [](const KdaArgs& args) { scale(args.v, 0), scale(args.initial_state, 1e-8f); }},
      {"ValuesThatGrow", inside(192, DataKind::slow), [](const KdaArgs& args) { scale(args.v, 1e7f, 70); }},
      {"ValuesThatShrink", inside(300),
       [](const KdaArgs& args) { scale(args.v, 1e-7f, 70), scale(args.initial_state, 0); }},
      {"HugeValuesOfSmallHeads", with_small_heads(inside(70)), together(0x1p40f)},
      {"SmallF16", given(130, DType::f16), together(0x1p-7f)},
      {"LargeF16", given(130, DType::f16), together(0x1p9f)},
      {"LongQueries", inside(70), queries(0x1p30f)},
      {"LongQueriesAsGiven", given(70, DType::bf16), queries(0x1p30f)},
      {"ShortQueriesAsGiven", given(70, DType::bf16), queries(0x1p-30f)},
      {"LongKeys", given(130, DType::bf16), keys(0x1p20f)},
      {"ShortKeys", given(130, DType::bf16), keys(0x1p-20f)},
      {"ShortKeysInSegments", cut(given(250, DType::bf16), 3), keys(0x1p-20f)},
      {"ShortKeysWithTheirBetas", given(130, DType::bf16),
       [](const KdaArgs& args) { scale(args.k, 0x1p-20f), scale(args.initial_state, 0); }},
      {"ShortestKeysWithTheirBetas", cut(given(250, DType::bf16), 3),
       [](const KdaArgs& args) { scale(args.k, 0x1p-60f), scale(args.initial_state, 0x1p-60f); }},
      {"ShortKeysAndAState", given(130, DType::bf16), [](const KdaArgs& args) { scale(args.k, 0x1p-12f); }},
      {"WeakBetas", given(130, DType::bf16),
       [](const KdaArgs& args) { scale(args.beta, 0x1p-30f), scale(args.initial_state, 0); }},
      {"KeysOfAllLengths", given(130, DType::bf16),
       [](const KdaArgs& args) {
         for (std::int64_t t = 0; t < 130; ++t) {
           const float factor = std::ldexp(1.0f, static_cast<int>(t * 7 % 41) - 20);
           for (std::int64_t c = 0; c < 128; ++c) put(args.k, t * 128 + c, factor * get(args.k, t * 128 + c));
           put(args.beta, t, get(args.beta, t) / factor / factor);
         }
       },
       5e-3, 2e-3},
      {"AdditiveHuge", passed(additive(130)), together(0x1p60f)},
      {"AdditiveTiny", passed(additive(130, DataKind::random)), together(0x1p-60f)},
      {"AdditiveHugeInSegments", cut(additive(250), 3), together(0x1p60f)},
      {"AdditiveTinyValues", additive(130), values(1e-8f)},
      {"AdditiveLargeF16", additive(130, DataKind::random, DType::f16), together(0x1p9f)},
      {"AdditiveFirstStateThatStays", additive(130), states(1e6f)},
      {"AdditiveValuesThatGrow", additive(192), [](const KdaArgs& args) { scale(args.v, 1e7f, 70); }},
      {"AdditiveKeysOfNorm30", additive(700),
       [](const KdaArgs& args) { scale(args.k, 30), scale(args.v, 8); }},
      {"AdditiveLongKeys", additive(130), [](const KdaArgs& args) { scale(args.k, 0x1p40f); }},
      {"AdditiveShortKeysInSegments", cut(additive(250, DataKind::resets), 3),
       [](const KdaArgs& args) { scale(args.k, 0x1p-40f), scale(args.initial_state, 0x1p-40f); }},
      {"AdditiveLongQueries", additive(70), queries(0x1p30f)},
      {"AdditiveKeysOfAllLengths", additive(130),
       [](const KdaArgs& args) {
         for (std::int64_t t = 0; t < 130; ++t) {
           const float factor = std::ldexp(1.0f, static_cast<int>(t * 7 % 41) - 20);
           for (std::int64_t c = 0; c < 128; ++c) {
             put(args.k, t * 128 + c, factor * get(args.k, t * 128 + c));
             put(args.v, t * 128 + c, get(args.v, t * 128 + c) / factor);
           }
         }
       }},
      {"AdditiveTokenGatesHuge", with_token_gates(additive(130, DataKind::strong)), together(0x1p60f)},
      {"AdditiveTokenGatesLongKeys", with_token_gates(additive(130)),
       [](const KdaArgs& args) {
         scale(args.k, 0x1p90f), scale(args.q, 0x1p-20f, 70), scale(args.v, 0x1p-80f);
       }},
      {"AdditiveTokenGatesShortF16", with_token_gates(additive(130, DataKind::resets, DType::f16)),
       [](const KdaArgs& args) { scale(args.k, 0x1p-7f), scale(args.q, 0x1p-7f, 70); }},
      {"AdditiveTokenGatesThatGrow", with_token_gates(additive(130)),
       [](const KdaArgs& args) { scale(args.g, -0.5f); }},
      {"KeysNextToNothing", inside(70, DataKind::slow),
       [](const KdaArgs& args) { scale(args.k, 1e-7f), scale(args.initial_state, 0); }},
      {"SomeKeysZero", inside(70),
       [](const KdaArgs& args) {
         for (std::int64_t i = 0; i < 20 * 128; ++i) put(args.k, i, 0), put(args.q, i, 0);
       }},
  };
}

class FlashKdaRange : public testing::TestWithParam<Case> {};
TEST_P(FlashKdaRange, HasTheErrorsOfPlainNumbers) {
  Forward forward = GetParam().forward;
  forward.change = GetParam().change;
  const ForwardResult result = run(forward);
  EXPECT_EQ(text_of(result.findings), "");
  EXPECT_LE(result.errors.o, GetParam().o);
  EXPECT_LE(result.errors.final_state, GetParam().state);
}
INSTANTIATE_TEST_SUITE_P(On, FlashKdaRange, testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });

/// Powers of two cost nothing: the same bits, but for the exponent.
TEST(FlashKdaRange, ScalesResultsByWhatItsInputsAreScaledBy) {
  Forward small = inside(130), large = small;
  small.change = together(0x1p-40f);
  large.change = together(0x1p50f);
  const ForwardResult one = run(small), other = run(large);
  ASSERT_EQ(one.final_state.size(), other.final_state.size());
  for (std::size_t i = 0; i < one.final_state.size(); ++i)
    ASSERT_EQ(one.final_state[i] * 0x1p90f, other.final_state[i]) << i;
}

/// Everything that the recurrence has finite is what it would be without the number that is not; everything
/// else is not finite.
void check_lost(Forward forward, TensorView KdaArgs::*argument, std::int64_t token, float value) {
  SCOPED_TRACE("token " + std::to_string(token) + ", " + std::to_string(value));
  const ForwardResult clean = run(forward);
  std::vector<double> o, state;
  forward.change = [&](const KdaArgs& args) {
    const TensorView& x = args.*argument;
    const std::int64_t row = x.numel() / x.size(1);
    const bool of_token = argument == &KdaArgs::g && forward.gates == GateKind::token;
    put(x, token * row + (row > 1 && !of_token ? 37 : 0), value);
    if (of_token) repeat_first_channel(x, row);
    const cases::Reference reference = reference_of(forward, args);
    o = reference.o, state = reference.final_state;
  };
  const ForwardResult result = run(forward);
  EXPECT_EQ(text_of(result.findings), "");
  ASSERT_EQ(result.o.size(), o.size());
  for (std::size_t i = 0; i < o.size(); ++i) {
    const float x = to_float(bf16{result.o[i]});
    ASSERT_EQ(std::isfinite(x), std::isfinite(o[i])) << "token " << i / 128 << ", column " << i % 128;
    if (argument != &KdaArgs::g && i / 128 < static_cast<std::size_t>(token)) {  // of a gate next to them
      ASSERT_EQ(result.o[i], clean.o[i]) << "token " << i / 128 << ", column " << i % 128;
    }
    if (!std::isfinite(x)) continue;
    const float plain = to_float(bf16{clean.o[i]});
    ASSERT_NEAR(x, plain, 0.02f * std::abs(plain) + 0.02f) << "token " << i / 128 << ", column " << i % 128;
  }
  ASSERT_EQ(result.final_state.size(), state.size());
  for (std::size_t i = 0; i < state.size(); ++i)
    ASSERT_EQ(std::isfinite(result.final_state[i]), std::isfinite(state[i])) << i;
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(FlashKdaLostNumbers, ReachNothingBeforeThemInKeys) {
  check_lost(inside(130), &KdaArgs::k, 70, kNan);
  check_lost(given(130, DType::bf16), &KdaArgs::k, 63, -kInf);
  check_lost(cut(inside(250, DataKind::slow), 3), &KdaArgs::k, 75, kNan);
  check_lost(additive(130), &KdaArgs::k, 63, kInf);
  check_lost(cut(additive(250), 3), &KdaArgs::k, 75, kNan);
  check_lost(with_token_gates(additive(130)), &KdaArgs::k, 63, kNan);
}
TEST(FlashKdaLostNumbers, ReachNothingBeforeThemInGates) {
  check_lost(inside(130), &KdaArgs::g, 33, kNan);
  check_lost(given(130, DType::bf16, DataKind::resets), &KdaArgs::g, 64, kNan);
  check_lost(additive(130, DataKind::resets), &KdaArgs::g, 64, kNan);
  check_lost(cut(additive(250), 3), &KdaArgs::g, 70, kNan);
  check_lost(with_token_gates(additive(130, DataKind::resets)), &KdaArgs::g, 64, kNan);
}
TEST(FlashKdaLostNumbers, ReachNothingBeforeThemInBetas) {
  check_lost(inside(70), &KdaArgs::beta, 5, kNan);
  check_lost(given(70, DType::bf16), &KdaArgs::beta, 69, kInf);
}
TEST(FlashKdaLostNumbers, StayInTheirRowInQueries) {
  check_lost(inside(70), &KdaArgs::q, 17, kNan);
  check_lost(given(70, DType::bf16), &KdaArgs::q, 66, kInf);
  check_lost(additive(70), &KdaArgs::q, 66, kInf);
  check_lost(with_token_gates(additive(70)), &KdaArgs::q, 3, kNan);
}
TEST(FlashKdaLostNumbers, StayInTheirColumnInValues) {
  check_lost(inside(130), &KdaArgs::v, 40, kNan);
  check_lost(passed(inside(130, DataKind::slow)), &KdaArgs::v, 65, -kInf);
  check_lost(cut(inside(250, DataKind::slow), 3), &KdaArgs::v, 10, kInf);
  check_lost(additive(130), &KdaArgs::v, 40, kNan);
  check_lost(cut(additive(250), 3), &KdaArgs::v, 10, kInf);
}
TEST(FlashKdaLostNumbers, StayInTheirColumnInFirstStates) {
  Forward forward = inside(70, DataKind::slow);
  forward.change = [](const KdaArgs& args) { put(args.initial_state, 5 * 128 + 21, kInf); };
  const ForwardResult result = run(forward);
  EXPECT_EQ(text_of(result.findings), "");
  for (std::size_t i = 0; i < result.o.size(); ++i)
    ASSERT_EQ(std::isfinite(to_float(bf16{result.o[i]})), i % 128 != 21) << i;
  for (std::size_t i = 0; i < result.final_state.size(); ++i)
    ASSERT_EQ(std::isfinite(result.final_state[i]), i % 128 != 21) << i;
}

/// The pool of a call without an initial_state is final_state's.
TEST(FlashKdaSlots, BeyondThePoolAreSkippedWithoutAnInitialState) {
  Forward forward = inside(0);
  forward.spec.lengths = {70, 5, 64};
  forward.spec.pool = 4;
  forward.without_initial_state = true;
  forward.state_indices = {1, 4, std::int64_t{1} << 40};
  const ForwardResult result = run(forward);
  EXPECT_EQ(text_of(result.findings), "");
  const auto is_zero = [&](std::size_t first, std::size_t end) {
    for (std::size_t i = first * 128; i < end * 128; ++i)
      if (result.o[i] != 0) return false;
    return true;
  };
  EXPECT_FALSE(is_zero(0, 70));
  EXPECT_TRUE(is_zero(70, 139));
}

}  // namespace
}  // namespace fla::emulation
