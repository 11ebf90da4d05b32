#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "fla/core/errors.h"
#include "fla/ops/kda/kda.h"
#include "tests/ops/kda/every_way.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::DType;
using fla::KdaArgs;
using fla::TensorView;
using fla::conformance::LaidOut;

const fla::Device kCuda{fla::DeviceType::cuda, 0};

/// A call that is right, packed, with every argument there and poisoned outputs: B=1 T=6 H=2 HV=4 K=4 V=5,
/// N=3.
struct Call {
  fla::cases::KdaCase made = fla::cases::make_kda_case({.H = 2,
                                                        .HV = 4,
                                                        .K = 4,
                                                        .V = 5,
                                                        .lengths = {2, 0, 4},
                                                        .options = {.scale = 0.5f,
                                                                    .output_final_state = true,
                                                                    .use_qk_l2norm_in_kernel = true,
                                                                    .use_gate_in_kernel = true,
                                                                    .safe_gate = true,
                                                                    .lower_bound = -3.0f}});
  KdaArgs args = made.args;
  std::array<float, 300> shared{};  // for tensors that overlap each other and nothing else
  LaidOut out{std::array<std::int64_t, 4>{1, 6, 4, 5}, DType::f32};
  LaidOut final_state{std::array<std::int64_t, 4>{3, 4, 4, 5}, DType::f32};

  Call() {
    args.out = out.view();
    args.final_state = final_state.view();
  }
  std::int64_t* starts() { return args.cu_seqlens.as<std::int64_t>(); }

  TensorView shaped(const TensorView& like, std::initializer_list<std::int64_t> shape) const {
    return {like.data(), like.dtype(), shape};
  }
};

struct Defect {
  const char* name;
  std::function<void(Call&)> spoil;
  std::string argument, message;
};

class KdaBadInput : public testing::TestWithParam<Defect> {};

TEST_P(KdaBadInput, IsRefusedByEveryFunctionBeforeAnythingRuns) {
  const Defect& defect = GetParam();
  Call call;
  defect.spoil(call);
  call.out.remember();
  call.final_state.remember();
  fla_test::expect_refusal(call.args, defect.argument, defect.message);
  EXPECT_TRUE(call.out.intact() && call.final_state.intact()) << "something was written";
}

TEST(KdaGoodInput, IsWhatTheDefectsStartFrom) {
  Call call;
  fla_test::expect_agreement(call.args);
}

template <class Member>
std::function<void(Call&)> drop(Member member) {
  return [member](Call& call) { call.args.*member = {}; };
}
template <class Member>
std::function<void(Call&)> null(Member member) {
  return [member](Call& call) {
    const TensorView& tensor = call.args.*member;
    call.args.*member = TensorView(nullptr, tensor.dtype(), tensor.shape());
  };
}
template <class Member>
std::function<void(Call&)> move(Member member) {
  return [member](Call& call) {
    const TensorView& tensor = call.args.*member;
    call.args.*member = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), kCuda);
  };
}
template <class Member>
std::function<void(Call&)> retype(Member member, DType dtype) {
  return [member, dtype](Call& call) {
    const TensorView& tensor = call.args.*member;
    call.args.*member = TensorView(tensor.data(), dtype, tensor.shape());
  };
}
template <class Member>
std::function<void(Call&)> reshape(Member member, std::initializer_list<std::int64_t> shape) {
  return [member, shape = std::vector<std::int64_t>(shape)](Call& call) {
    const TensorView& tensor = call.args.*member;
    call.args.*member = TensorView(tensor.data(), tensor.dtype(), shape);
  };
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const Defect kDefects[] = {
    {"NoQ", drop(&KdaArgs::q), "q", "expected a tensor of shape [B, T, H, K], got none"},
    {"NoK", drop(&KdaArgs::k), "k", "expected a tensor of shape [B=1, T=6, H=2, K=4], got none"},
    {"NoV", drop(&KdaArgs::v), "v", "expected a tensor of shape [B=1, T=6, HV, V], got none"},
    {"NoG", drop(&KdaArgs::g), "g", "expected a tensor of shape [B=1, T=6, HV=4, K=4], got none"},
    {"NoBeta", drop(&KdaArgs::beta), "beta", "expected a tensor of shape [B=1, T=6, HV=4], got none"},

    {"NullQ", null(&KdaArgs::q), "q", "expected f32[1, 6, 2, 4] on cpu, got a null pointer"},
    {"NullK", null(&KdaArgs::k), "k", "expected f32[1, 6, 2, 4] on cpu, got a null pointer"},
    {"NullV", null(&KdaArgs::v), "v", "expected f32[1, 6, 4, 5] on cpu, got a null pointer"},
    {"NullG", null(&KdaArgs::g), "g", "expected f32[1, 6, 4, 4] on cpu, got a null pointer"},
    {"NullBeta", null(&KdaArgs::beta), "beta", "expected f32[1, 6, 4] on cpu, got a null pointer"},
    {"NullState", null(&KdaArgs::initial_state), "initial_state",
     "expected f32[3, 4, 4, 5] on cpu, got a null pointer"},
    {"NullStarts", null(&KdaArgs::cu_seqlens), "cu_seqlens", "expected i64[4] on cpu, got a null pointer"},
    {"NullALog", null(&KdaArgs::A_log), "A_log", "expected f32[4] on cpu, got a null pointer"},
    {"NullBias", null(&KdaArgs::dt_bias), "dt_bias", "expected f32[16] on cpu, got a null pointer"},
    {"NullOut", null(&KdaArgs::out), "out", "expected f32[1, 6, 4, 5] on cpu, got a null pointer"},
    {"NullFinalState", null(&KdaArgs::final_state), "final_state",
     "expected f32[3, 4, 4, 5] on cpu, got a null pointer"},

    {"TypeOfQ", retype(&KdaArgs::q, DType::i32), "q", "expected dtype bf16 or f16 or f32, got i32"},
    {"TypeOfG", retype(&KdaArgs::g, DType::i64), "g", "expected dtype bf16 or f16 or f32, got i64"},
    {"TypeOfTheState", retype(&KdaArgs::initial_state, DType::f16), "initial_state",
     "expected dtype bf16 or f32, got f16"},
    {"TypeOfTheFinalState", retype(&KdaArgs::final_state, DType::f16), "final_state",
     "expected dtype bf16 or f32, got f16"},
    {"TypeOfTheStarts", retype(&KdaArgs::cu_seqlens, DType::f32), "cu_seqlens",
     "expected dtype i32 or i64, got f32"},
    {"TypeOfOut", retype(&KdaArgs::out, DType::bf16), "out", "expected dtype f32 like v, got bf16"},

    {"RankOfQ", reshape(&KdaArgs::q, {6, 2, 4}), "q", "expected shape [B, T, H, K], got [6, 2, 4]"},
    {"LengthOfK", reshape(&KdaArgs::k, {1, 5, 2, 4}), "k",
     "expected shape [B=1, T=6, H=2, K=4], got [1, 5, 2, 4]"},
    {"HeadsOfK", reshape(&KdaArgs::k, {1, 6, 1, 4}), "k",
     "expected shape [B=1, T=6, H=2, K=4], got [1, 6, 1, 4]"},
    {"ChannelsOfK", reshape(&KdaArgs::k, {1, 6, 2, 3}), "k",
     "expected shape [B=1, T=6, H=2, K=4], got [1, 6, 2, 3]"},
    {"LengthOfV", reshape(&KdaArgs::v, {1, 7, 4, 5}), "v",
     "expected shape [B=1, T=6, HV, V], got [1, 7, 4, 5]"},
    {"HeadsOfG", reshape(&KdaArgs::g, {1, 6, 2, 4}), "g",
     "expected shape [B=1, T=6, HV=4, K=4], got [1, 6, 2, 4]"},
    {"ChannelsOfG", reshape(&KdaArgs::g, {1, 6, 4, 1}), "g",
     "expected shape [B=1, T=6, HV=4, K=4], got [1, 6, 4, 1]"},
    {"RankOfBeta", reshape(&KdaArgs::beta, {1, 6, 4, 1}), "beta",
     "expected shape [B=1, T=6, HV=4], got [1, 6, 4, 1]"},
    {"ShapeOfTheState", reshape(&KdaArgs::initial_state, {3, 4, 5, 4}), "initial_state",
     "expected shape [N=3, HV=4, K=4, V=5], got [3, 4, 5, 4]"},
    {"StatesOfOtherSequences", reshape(&KdaArgs::initial_state, {1, 4, 4, 5}), "initial_state",
     "expected shape [N=3, HV=4, K=4, V=5], got [1, 4, 4, 5]"},
    {"LayoutOfTheState", [](Call& call) { call.args.state_v_first = true; }, "initial_state",
     "expected shape [N=3, HV=4, V=5, K=4], got [3, 4, 4, 5]"},
    {"LengthOfALog", reshape(&KdaArgs::A_log, {2}), "A_log", "expected shape [HV=4], got [2]"},
    {"LengthOfTheBias", reshape(&KdaArgs::dt_bias, {4}), "dt_bias", "expected shape [HV*K=16], got [4]"},
    {"ShapeOfOut", reshape(&KdaArgs::out, {1, 6, 2, 5}), "out",
     "expected shape [B=1, T=6, HV=4, V=5], got [1, 6, 2, 5]"},
    {"ShapeOfTheFinalState", reshape(&KdaArgs::final_state, {3, 4, 4, 4}), "final_state",
     "expected shape [N=3, HV=4, K=4, V=5], got [3, 4, 4, 4]"},

    {"DeviceOfK", move(&KdaArgs::k), "k", "expected device cpu, got cuda:0"},
    {"DeviceOfTheState", move(&KdaArgs::initial_state), "initial_state", "expected device cpu, got cuda:0"},
    {"DeviceOfTheStarts", move(&KdaArgs::cu_seqlens), "cu_seqlens", "expected device cpu, got cuda:0"},
    {"DeviceOfOut", move(&KdaArgs::out), "out", "expected device cpu, got cuda:0"},

    {"StartsThatFall",
     [](Call& call) {
       call.starts()[1] = 5;
       call.starts()[2] = 2;
     },
     "cu_seqlens", "expected entries that never fall, got cu_seqlens[1]=5 and cu_seqlens[2]=2"},
    {"StartsAboveZero", [](Call& call) { call.starts()[0] = 1; }, "cu_seqlens",
     "expected a first entry of 0, got cu_seqlens[0]=1"},
    {"StartsBelowZero", [](Call& call) { call.starts()[0] = -1; }, "cu_seqlens",
     "expected a first entry of 0, got cu_seqlens[0]=-1"},
    {"StartsThatEndLate", [](Call& call) { call.starts()[3] = 7; }, "cu_seqlens",
     "expected a last entry of at most T=6, got cu_seqlens[3]=7"},
    {"NoStarts", reshape(&KdaArgs::cu_seqlens, {0}), "cu_seqlens", "expected shape [N+1], got [0]"},
    {"RankOfTheStarts", reshape(&KdaArgs::cu_seqlens, {1, 4}), "cu_seqlens",
     "expected shape [N+1], got [1, 4]"},

    {"NanScale", [](Call& call) { call.args.scale = std::nanf(""); }, "scale",
     "expected a finite number, got nan"},
    {"InfiniteScale", [](Call& call) { call.args.scale = kInfinity; }, "scale",
     "expected a finite number, got inf"},
    {"NanBound", [](Call& call) { call.args.lower_bound = std::nanf(""); }, "lower_bound",
     "expected a finite number, got nan"},
    {"BoundTooLow", [](Call& call) { call.args.lower_bound = -5.5f; }, "lower_bound",
     "expected a value in [-5, 0) with safe_gate, got -5.500000"},
    {"BoundOfZero", [](Call& call) { call.args.lower_bound = 0.0f; }, "lower_bound",
     "expected a value in [-5, 0) with safe_gate, got 0.000000"},
    {"BoundAboveZero",
     [](Call& call) {
       call.args.safe_gate = false;
       call.args.lower_bound = 1.0f;
     },
     "lower_bound", "expected a negative value, got 1.000000"},
    {"SafeGateWithoutABound", [](Call& call) { call.args.lower_bound = {}; }, "lower_bound",
     "expected a value in [-5, 0) with safe_gate, got none"},
    {"NegativeEigenvaluesWithoutSigmoid", [](Call& call) { call.args.allow_neg_eigval = true; },
     "use_beta_sigmoid_in_kernel", "expected true with allow_neg_eigval, got false"},
    {"SoftplusGateWithoutALog",
     [](Call& call) {
       call.args.lower_bound = {};
       call.args.safe_gate = false;
       call.args.A_log = {};
     },
     "A_log", "expected a tensor of shape [HV] with use_gate_in_kernel and no lower_bound, got none"},

    {"OutOverV", [](Call& call) { call.args.out = call.args.v; }, "out",
     "expected memory of its own, got some that overlaps v"},
    {"OutOverPartOfQ",
     [](Call& call) {
       call.args.out = {call.args.q.as<float>() + 40, DType::f32, {1, 6, 4, 5}};
     },
     "out", "expected memory of its own, got some that overlaps q"},
    {"FinalStateOverPartOfTheInitialState",
     [](Call& call) {
       call.args.initial_state = {call.shared.data(), DType::f32, {3, 4, 4, 5}};
       call.args.final_state = {call.shared.data() + 20, DType::f32, {3, 4, 4, 5}};
     },
     "final_state", "expected memory of its own, got some that overlaps initial_state"},
    {"FinalStateOverTheBias",
     [](Call& call) {
       call.args.dt_bias = {call.shared.data() + 100, DType::f32, {16}};
       call.args.final_state = {call.shared.data(), DType::f32, {3, 4, 4, 5}};
     },
     "final_state", "expected memory of its own, got some that overlaps dt_bias"},
    {"OutOverTheFinalState",
     [](Call& call) {
       call.args.out = {call.args.final_state.as<float>() + 8, DType::f32, {1, 6, 4, 5}};
     },
     "final_state", "expected memory of its own, got some that overlaps out"},
    {"OutWithOneRowForAllTokens",
     [](Call& call) {
       constexpr std::array<std::int64_t, 4> shape{1, 6, 4, 5}, strides{120, 0, 5, 1};
       call.args.out = {call.out.view().data(), DType::f32, shape, strides};
     },
     "out", "expected every element in a place of its own, got stride 0 at axis 1"},
    {"OutWhoseTokensOverlap",
     [](Call& call) {
       constexpr std::array<std::int64_t, 4> shape{1, 6, 4, 5}, strides{120, 10, 5, 1};
       call.args.out = {call.out.view().data(), DType::f32, shape, strides};
     },
     "out",
     "expected every element in a place of its own, got strides [120, 10, 5, 1] for shape [1, 6, 4, 5]"},
};

INSTANTIATE_TEST_SUITE_P(Defects, KdaBadInput, testing::ValuesIn(kDefects),
                         [](const auto& test) { return test.param.name; });

/// Sizes that no kernel takes need calls of their own.
struct BadSize {
  const char* name;
  std::int64_t B, T, H, HV, K, V;
  bool packed;
  std::string argument, message;
};

class KdaBadSize : public testing::TestWithParam<BadSize> {};

TEST_P(KdaBadSize, IsRefused) {
  const BadSize& size = GetParam();
  std::vector<float> memory(static_cast<std::size_t>(size.B * size.T * size.HV * (size.K + size.V) + 1000));
  const std::array<std::int32_t, 2> starts{0, static_cast<std::int32_t>(size.T)};
  KdaArgs args{.q = {memory.data(), DType::f32, {size.B, size.T, size.H, size.K}},
               .k = {memory.data(), DType::f32, {size.B, size.T, size.H, size.K}},
               .v = {memory.data(), DType::f32, {size.B, size.T, size.HV, size.V}},
               .g = {memory.data(), DType::f32, {size.B, size.T, size.HV, size.K}},
               .beta = {memory.data(), DType::f32, {size.B, size.T, size.HV}}};
  if (size.packed) args.cu_seqlens = {starts.data(), DType::i32, {2}};
  for (const auto& [way, run] : fla_test::kEveryWay) {
    try {
      run(args);
      ADD_FAILURE() << way << " threw nothing";
    } catch (const fla::InvalidArgument& error) {
      EXPECT_EQ(error.argument(), size.argument) << way;
      EXPECT_EQ(error.what(), "kda: " + size.argument + ": " + size.message) << way;
    }
  }
}

const BadSize kBadSizes[] = {
    {"NoKeyChannels", 1, 2, 1, 1, 0, 4, false, "q", "expected K from 1 to 256, got 0"},
    {"TooManyKeyChannels", 1, 2, 1, 1, 257, 4, false, "q", "expected K from 1 to 256, got 257"},
    {"NoValueChannels", 1, 2, 1, 1, 4, 0, false, "v", "expected V from 1 to 256, got 0"},
    {"TooManyValueChannels", 1, 2, 1, 1, 4, 257, false, "v", "expected V from 1 to 256, got 257"},
    {"NoHeads", 1, 2, 0, 1, 4, 4, false, "q", "expected at least one head, got H=0"},
    {"NoValueHeads", 1, 2, 1, 0, 4, 4, false, "v", "expected HV to be a multiple of H=1, got HV=0"},
    {"HeadsThatDoNotDivide", 1, 2, 2, 3, 4, 4, false, "v", "expected HV to be a multiple of H=2, got HV=3"},
    {"FewerValueHeads", 1, 2, 4, 2, 4, 4, false, "v", "expected HV to be a multiple of H=4, got HV=2"},
    {"PackedBatches", 2, 2, 1, 1, 4, 4, true, "cu_seqlens", "expected B=1 with packed sequences, got B=2"},
};

INSTANTIATE_TEST_SUITE_P(Sizes, KdaBadSize, testing::ValuesIn(kBadSizes),
                         [](const auto& test) { return test.param.name; });

TEST(KdaBadStarts, OneEntryIsNoSequence) {
  Call call;
  call.args.initial_state = call.args.final_state = {};
  call.args.cu_seqlens = call.shaped(call.args.cu_seqlens, {1});
  try {
    fla::kda(call.args);
    FAIL() << "nothing was thrown";
  } catch (const fla::InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "kda: cu_seqlens: expected at least two entries, got 1");
  }
}

TEST(KdaOnCuda, WritesNothingWhereThereIsNoSuchDevice) {
  constexpr fla::Device kNowhere{fla::DeviceType::cuda, 999};
  Call call;
  for (const fla::Argument& argument : KdaArgs::arguments()) {
    if (!argument.is_tensor() || argument.kind == fla::ArgumentKind::index) continue;
    TensorView& tensor = argument.tensor(&call.args);
    if (tensor.defined()) tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), kNowhere);
  }
  for (const auto& [way, run] : fla_test::kEveryWay) {
    EXPECT_THROW(run(call.args), fla::InvalidArgument) << way;
  }
  EXPECT_TRUE(call.out.intact() && call.final_state.intact());
}

}  // namespace
