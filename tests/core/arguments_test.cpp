#include "fla/core/arguments.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"

namespace {

using fla::Axis;
using fla::DType;
using fla::TensorView;
using fla_test::error_text;

#define MIX_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG)                  \
  TENSOR(q, required, fla::kFloatTypes, "B T H K", "queries")                        \
  TENSOR(v, required, fla::kFloatTypes, "B T HV V", "values")                        \
  NUMBER(scale, "a number")                                                          \
  TENSOR(state, optional, fla::kStateTypes, "P HV K V; turned: P HV V K", "a state") \
  FLAG(turned, "the other layout")                                                   \
  FLAG(exact, "no shortcuts")                                                        \
  FLAG(twice, "does it again", exact)                                                \
  INDEX(slots, optional, fla::kIndexTypes, "N", "which state a sequence has")        \
  INDEX(cu_seqlens, optional, fla::kIndexTypes, "N+1", "where sequences begin")      \
  TENSOR(bias, optional, fla::kFloatTypes, "HV*K | HV K", "either shape")            \
  TENSOR(rate, optional, fla::kFloatTypes, "HV", "of the bias", bias)                \
  NUMBER(limit, "of the scale", scale)                                               \
  INTEGER(depth, "a count")                                                          \
  TENSOR(layers, optional, fla::kFloatTypes, "HV", "of the depth", depth)            \
  OUTPUT(out, fla::kFloatTypes, "B T HV V", "", "memory for the output")             \
  OUTPUT(new_state, fla::kStateTypes, "P HV K V; turned: P HV V K", "state", "memory for the state")

struct MixArgs {
  FLA_ARGUMENT_MEMBERS(MIX_ARGUMENTS)

  static fla::ArgumentTable arguments() { FLA_RETURN_ARGUMENT_TABLE(MixArgs, MIX_ARGUMENTS); }
};

/// A call that is right, with memory for everything: B=2 T=3 H=1 HV=2 K=4 V=5, N=2.
struct Call {
  std::array<float, 24> q{};
  std::array<float, 60> v{}, out{};
  std::array<float, 80> state{}, new_state{};
  std::array<float, 8> bias{};
  std::array<std::int32_t, 3> cu_seqlens{};
  MixArgs args;

  Call() {
    args.q = {q.data(), DType::f32, {2, 3, 1, 4}};
    args.v = {v.data(), DType::f32, {2, 3, 2, 5}};
    args.scale = 0.5f;
    args.state = {state.data(), DType::f32, {2, 2, 4, 5}};
    args.cu_seqlens = {cu_seqlens.data(), DType::i32, {3}};
    args.bias = {bias.data(), DType::f32, {8}};
    args.out = {out.data(), DType::f32, {2, 3, 2, 5}};
    args.new_state = {new_state.data(), DType::f32, {2, 2, 4, 5}};
  }
  fla::AxisSizes check() const { return fla::check_arguments(MixArgs::arguments(), &args); }
};

TEST(ArgumentTable, MeasuresARightCall) {
  const fla::AxisSizes sizes = Call().check();
  const std::array<std::int64_t, fla::kAxes> expected{2, 3, 1, 2, 4, 5, 2, 2, -1, -1, -1, -1};
  for (int axis = 0; axis < fla::kAxes; ++axis) {
    EXPECT_EQ(sizes[static_cast<Axis>(axis)], expected[static_cast<std::size_t>(axis)])
        << fla::kAxisNames[static_cast<std::size_t>(axis)];
  }
}

TEST(ArgumentTable, OptionalArgumentsMayBeAbsent) {
  Call call;
  call.args = {.q = call.args.q, .v = call.args.v};
  EXPECT_EQ(call.check()[Axis::N], 2) << "as many sequences as batches";
}

TEST(ArgumentTable, EitherShapeOfTwoIsTaken) {
  Call call;
  call.args.bias = {call.bias.data(), DType::f32, {2, 4}};
  EXPECT_NO_THROW(call.check());
}

TEST(ArgumentTable, AFlagChangesTheShapeInForce) {
  Call call;
  call.args.turned = true;
  call.args.state = {call.state.data(), DType::f32, {2, 2, 5, 4}};
  call.args.new_state = {call.new_state.data(), DType::f32, {2, 2, 5, 4}};
  EXPECT_NO_THROW(call.check());
  const fla::ArgumentTable table = MixArgs::arguments();
  EXPECT_EQ(fla::rule_in_force(table, *fla::find_argument(table, "state"), &call.args).text, "P HV V K");
}

TEST(ArgumentTable, IndicesSayHowManySequencesThereAre) {
  Call call;
  std::array<std::int64_t, 5> starts{};
  std::array<float, 160> four_states{};
  call.args.cu_seqlens = {starts.data(), DType::i64, {5}};
  call.args.state = {four_states.data(), DType::f32, {4, 2, 4, 5}};
  call.args.new_state = {};
  EXPECT_EQ(call.check()[Axis::N], 4);
}

/// The call with three slots for its two sequences.
struct PooledCall : Call {
  std::array<float, 120> pool{}, new_pool{};
  std::array<std::int64_t, 3> slots{};

  PooledCall() {
    args.cu_seqlens = {};
    args.slots = {slots.data(), DType::i64, {2}};
    args.state = {pool.data(), DType::f32, {3, 2, 4, 5}};
    args.new_state = {new_pool.data(), DType::f32, {3, 2, 4, 5}};
  }
};

TEST(ArgumentTable, WithSlotsToNameThePoolHasAnySize) {
  PooledCall call;
  EXPECT_EQ(call.check()[Axis::N], 2) << "as many sequences as batches, whatever the slots are";
  EXPECT_EQ(call.check()[Axis::P], 3);
  call.args.state = {};
  EXPECT_EQ(call.check()[Axis::P], 3) << "the output tells";
  call.args.new_state = {};
  EXPECT_EQ(call.check()[Axis::P], -1) << "nobody tells";
  call.args.new_state = {nullptr, DType::f32, {0, 2, 4, 5}};
  EXPECT_EQ(call.check()[Axis::P], 0);
}

TEST(ArgumentTable, SlotsAreNamedForPackedSequencesToo) {
  PooledCall call;
  std::array<std::int32_t, 4> starts{};
  call.args.cu_seqlens = {starts.data(), DType::i32, {4}};
  call.args.slots = {call.slots.data(), DType::i64, {3}};
  EXPECT_EQ(call.check()[Axis::N], 3);
}

TEST(ArgumentTable, SlotsAreHeldToTheNumberOfSequences) {
  PooledCall call;
  const auto text = [&call] { return error_text<fla::InvalidArgument>([&call] { call.check(); }); };
  call.args.slots = {call.slots.data(), DType::i64, {3}};
  EXPECT_EQ(text(), "slots: expected shape [N=2], got [3]");
  call.args.slots = {call.slots.data(), DType::f32, {2}};
  EXPECT_EQ(text(), "slots: expected dtype i32 or i64, got f32");
  call.args.slots = {nullptr, DType::i32, {2}};
  EXPECT_EQ(text(), "slots: expected i32[2] on cpu, got a null pointer");
}

TEST(ArgumentTable, PoolsHaveAsManySlots) {
  PooledCall call;
  const auto text = [&call] { return error_text<fla::InvalidArgument>([&call] { call.check(); }); };
  call.args.new_state = {call.new_pool.data(), DType::f32, {2, 2, 4, 5}};
  EXPECT_EQ(text(), "new_state: expected shape [P=3, HV=2, K=4, V=5], got [2, 2, 4, 5]");
  call.args.state = {call.pool.data(), DType::f32, {3, 2, 5, 4}};
  EXPECT_EQ(text(), "state: expected shape [P=3, HV=2, K=4, V=5], got [3, 2, 5, 4]");
  call.args.slots = {};
  EXPECT_EQ(text(), "state: expected shape [N=2, HV=2, K=4, V=5], got [3, 2, 5, 4]");
}

TEST(ArgumentTable, KnowsWhichIndexNamesSlots) {
  const fla::ArgumentTable table = MixArgs::arguments();
  for (const fla::Argument& argument : table)
    EXPECT_EQ(argument.names_slots(), argument.name == "slots") << argument.name;
}

TEST(ArgumentTable, InPlaceIsTheSameElementsInTheSamePlaces) {
  Call call;
  call.args.new_state = call.args.state;
  EXPECT_NO_THROW(call.check());
}

TEST(ArgumentTable, WhatIsNeededIsGivenWithIt) {
  Call call;
  call.args.exact = call.args.twice = true;
  call.args.limit = 2.0f;
  call.args.rate = {call.bias.data(), DType::f32, {2}};
  EXPECT_NO_THROW(call.check());
  EXPECT_EQ(fla::find_argument(MixArgs::arguments(), "twice")->needs, "exact");
  EXPECT_EQ(fla::find_argument(MixArgs::arguments(), "exact")->needs, "");
}

TEST(ArgumentTable, EmptyTensorsNeedNoMemory) {
  Call call;
  call.args = {.q = {nullptr, DType::f32, {2, 0, 1, 4}}, .v = {nullptr, DType::f32, {2, 0, 2, 5}}};
  EXPECT_NO_THROW(call.check());
}

TEST(ArgumentTable, FindsArgumentsByName) {
  EXPECT_EQ(fla::find_argument(MixArgs::arguments(), "scale")->kind, fla::ArgumentKind::number);
  EXPECT_EQ(fla::find_argument(MixArgs::arguments(), "nobody"), nullptr);
}

TEST(ArgumentTable, ReachesTheMembersOfTheStruct) {
  Call call;
  const fla::ArgumentTable table = MixArgs::arguments();
  void* args = &call.args;
  fla::find_argument(table, "turned")->flag(args) = true;
  fla::find_argument(table, "scale")->number(args) = 2.0f;
  fla::find_argument(table, "depth")->integer(args) = 3;
  fla::find_argument(table, "q")->tensor(args) = TensorView();
  EXPECT_TRUE(call.args.turned);
  EXPECT_EQ(call.args.scale, 2.0f);
  EXPECT_EQ(call.args.depth, 3);
  EXPECT_FALSE(call.args.q.defined());
}

struct Defect {
  const char* name;
  std::function<void(Call&)> spoil;
  std::string argument, message;
};

class ArgumentDefect : public testing::TestWithParam<Defect> {};

TEST_P(ArgumentDefect, IsRefusedByName) {
  Call call;
  GetParam().spoil(call);
  try {
    call.check();
    FAIL() << "nothing was thrown";
  } catch (const fla::InvalidArgument& error) {
    EXPECT_EQ(error.argument(), GetParam().argument);
    EXPECT_EQ(error.what(), GetParam().argument + ": " + GetParam().message);
  }
}

const fla::Device kCuda{fla::DeviceType::cuda, 0};
constexpr std::array<std::int64_t, 4> kOutShape{2, 3, 2, 5};
constexpr std::array<std::int64_t, 4> kSqueezed{30, 10, 0, 1};

const Defect kDefects[] = {
    {"AbsentQ", [](Call& c) { c.args.q = {}; }, "q", "expected a tensor of shape [B, T, H, K], got none"},
    {"AbsentV", [](Call& c) { c.args.v = {}; }, "v",
     "expected a tensor of shape [B=2, T=3, HV, V], got none"},
    {"NullQ",
     [](Call& c) {
       c.args.q = {nullptr, DType::f32, {2, 3, 1, 4}};
     },
     "q", "expected f32[2, 3, 1, 4] on cpu, got a null pointer"},
    {"RankOfQ",
     [](Call& c) {
       c.args.q = {c.q.data(), DType::f32, {2, 3, 4}};
     },
     "q", "expected shape [B, T, H, K], got [2, 3, 4]"},
    {"BatchOfV",
     [](Call& c) {
       c.args.v = {c.v.data(), DType::f32, {1, 3, 2, 5}};
     },
     "v", "expected shape [B=2, T=3, HV, V], got [1, 3, 2, 5]"},
    {"TypeOfV",
     [](Call& c) {
       c.args.v = {c.v.data(), DType::i32, {2, 3, 2, 5}};
     },
     "v", "expected dtype bf16 or f16 or f32, got i32"},
    {"DeviceOfV",
     [](Call& c) {
       c.args.v = {c.v.data(), DType::f32, {2, 3, 2, 5}, kCuda};
     },
     "v", "expected device cpu, got cuda:0"},
    {"DeviceOfTheIndex",
     [](Call& c) {
       c.args.cu_seqlens = {c.cu_seqlens.data(), DType::i32, {3}, kCuda};
     },
     "cu_seqlens", "expected device cpu, got cuda:0"},
    {"TypeOfTheIndex",
     [](Call& c) {
       c.args.cu_seqlens = {c.cu_seqlens.data(), DType::f32, {3}};
     },
     "cu_seqlens", "expected dtype i32 or i64, got f32"},
    {"RankOfTheIndex",
     [](Call& c) {
       c.args.cu_seqlens = {c.cu_seqlens.data(), DType::i32, {1, 3}};
     },
     "cu_seqlens", "expected shape [N+1], got [1, 3]"},
    {"NullIndex",
     [](Call& c) {
       c.args.cu_seqlens = {nullptr, DType::i32, {3}};
     },
     "cu_seqlens", "expected i32[3] on cpu, got a null pointer"},
    {"ShapeOfTheState",
     [](Call& c) {
       c.args.state = {c.state.data(), DType::f32, {2, 2, 5, 4}};
     },
     "state", "expected shape [N=2, HV=2, K=4, V=5], got [2, 2, 5, 4]"},
    {"TurnedState", [](Call& c) { c.args.turned = true; }, "state",
     "expected shape [N=2, HV=2, V=5, K=4], got [2, 2, 4, 5]"},
    {"TypeOfTheState",
     [](Call& c) {
       c.args.state = {c.state.data(), DType::f16, {2, 2, 4, 5}};
     },
     "state", "expected dtype bf16 or f32, got f16"},
    {"StatesForOtherSequences",
     [](Call& c) {
       c.args.cu_seqlens = {c.cu_seqlens.data(), DType::i32, {2}};
     },
     "state", "expected shape [N=1, HV=2, K=4, V=5], got [2, 2, 4, 5]"},
    {"LengthOfTheBias",
     [](Call& c) {
       c.args.bias = {c.bias.data(), DType::f32, {7}};
     },
     "bias", "expected shape [HV*K=8], got [7]"},
    {"ShapeOfTheBias",
     [](Call& c) {
       c.args.bias = {c.bias.data(), DType::f32, {4, 2}};
     },
     "bias", "expected shape [HV=2, K=4], got [4, 2]"},
    {"AFlagWithoutTheFlagThatItNeeds", [](Call& c) { c.args.twice = true; }, "exact",
     "expected true with twice, got false"},
    {"ANumberWithoutTheNumberThatItNeeds",
     [](Call& c) {
       c.args.scale = {};
       c.args.limit = 2.0f;
     },
     "scale", "expected a number with limit, got none"},
    {"ATensorWithoutTheIntegerThatItNeeds",
     [](Call& c) {
       c.args.layers = {c.bias.data(), DType::f32, {2}};
     },
     "depth", "expected a whole number with layers, got none"},
    {"ATensorWithoutTheTensorThatItNeeds",
     [](Call& c) {
       c.args.rate = {c.bias.data(), DType::f32, {2}};
       c.args.bias = {};
     },
     "bias", "expected a tensor of shape [HV*K=8] with rate, got none"},
    {"NanScale", [](Call& c) { c.args.scale = std::nanf(""); }, "scale", "expected a finite number, got nan"},
    {"InfiniteScale", [](Call& c) { c.args.scale = -std::numeric_limits<float>::infinity(); }, "scale",
     "expected a finite number, got -inf"},
    {"ShapeOfTheOutput",
     [](Call& c) {
       c.args.out = {c.out.data(), DType::f32, {2, 3, 2, 4}};
     },
     "out", "expected shape [B=2, T=3, HV=2, V=5], got [2, 3, 2, 4]"},
    {"NullOutput",
     [](Call& c) {
       c.args.out = {nullptr, DType::f32, {2, 3, 2, 5}};
     },
     "out", "expected f32[2, 3, 2, 5] on cpu, got a null pointer"},
    {"OutputOverAnInput", [](Call& c) { c.args.out = c.args.v; }, "out",
     "expected memory of its own, got some that overlaps v"},
    {"OutputOverPartOfAnInput",
     [](Call& c) {
       c.args.new_state = {c.state.data() + 79, DType::f32, {2, 2, 4, 5}};
     },
     "new_state", "expected memory of its own, got some that overlaps state"},
    {"InPlaceWithOtherStrides",
     [](Call& c) {
       constexpr std::array<std::int64_t, 4> shape{2, 2, 4, 5}, strides{20, 40, 5, 1};
       c.args.new_state = {c.state.data(), DType::f32, shape, strides};
     },
     "new_state", "expected memory of its own, got some that overlaps state"},
    {"OutputsOverEachOther",
     [](Call& c) {
       c.args.out = {c.new_state.data() + 20, DType::f32, {2, 3, 2, 5}};
     },
     "new_state", "expected memory of its own, got some that overlaps out"},
    {"OutputThatWritesAnElementTwice",
     [](Call& c) {
       c.args.out = {c.out.data(), DType::f32, kOutShape, kSqueezed};
     },
     "out", "expected every element in a place of its own, got stride 0 at axis 2"},
};

INSTANTIATE_TEST_SUITE_P(Table, ArgumentDefect, testing::ValuesIn(kDefects),
                         [](const auto& test) { return test.param.name; });

}  // namespace
