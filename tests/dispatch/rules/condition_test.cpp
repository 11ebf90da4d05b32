#include "fla/dispatch/rules/condition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/core/error_text.h"
#include "tests/dispatch/config/ruled.h"

namespace {

using fla::DeviceType;
using fla::DType;
using fla::dispatch::Condition;
using fla::dispatch::ConditionError;
using fla::dispatch::Decision;
using fla::dispatch::parse_condition;
using fla_test::arguments_of;
using fla_test::Call;
using fla_test::RuledArgs;

/// Whether the condition holds for a call of ruled_chunk.
bool holds(const std::string& text, const Call& call = {}) {
  const Condition condition = parse_condition(text);
  check_condition(condition, RuledArgs::arguments());
  const Condition* const rules[] = {&condition};
  const RuledArgs args = arguments_of(call);
  return Decision(rules, RuledArgs::arguments()).first(&args) == 0;
}

TEST(Condition, ComparesSizes) {
  EXPECT_TRUE(holds("T == 8"));
  EXPECT_FALSE(holds("T == 9"));
  EXPECT_TRUE(holds("T != 9"));
  EXPECT_FALSE(holds("T != 8"));
  EXPECT_TRUE(holds("T < 9"));
  EXPECT_FALSE(holds("T < 8"));
  EXPECT_TRUE(holds("T <= 8"));
  EXPECT_FALSE(holds("T <= 7"));
  EXPECT_TRUE(holds("T > 7"));
  EXPECT_FALSE(holds("T > 8"));
  EXPECT_TRUE(holds("T >= 8"));
  EXPECT_FALSE(holds("T >= 9"));
}

TEST(Condition, KnowsEverySize) {
  const Call call{.B = 2, .T = 3, .H = 4, .HV = 8, .K = 16, .V = 32};
  EXPECT_TRUE(holds("B == 2 and T == 3 and H == 4 and HV == 8 and K == 16 and V == 32 and N == 2", call));
}

TEST(Condition, CountsPackedSequences) {
  EXPECT_TRUE(holds("N == 5 and varlen", {.packed = 5}));
  EXPECT_TRUE(holds("N == 3 and not varlen", {.B = 3}));
  EXPECT_TRUE(holds("N == 0 and varlen", {.packed = 0}));
}

TEST(Condition, TakesTheConstantOnEitherSide) {
  EXPECT_TRUE(holds("9 > T"));
  EXPECT_FALSE(holds("8 > T"));
  EXPECT_TRUE(holds("8 >= T and 8 <= T and 8 == T and 7 != T"));
  EXPECT_FALSE(holds("8 < T"));
  EXPECT_TRUE(holds("'f32' == dtype"));
}

TEST(Condition, ComparesSizesWithEachOther) {
  EXPECT_TRUE(holds("HV == H"));
  EXPECT_FALSE(holds("HV > H"));
  EXPECT_TRUE(holds("HV > H and H < HV and HV != H", {.H = 2, .HV = 4}));
  EXPECT_TRUE(holds("K <= V and V >= K", {.K = 64, .V = 64}));
  EXPECT_FALSE(holds("K < V", {.K = 64, .V = 64}));
}

TEST(Condition, AsksForTheDtype) {
  EXPECT_TRUE(holds("dtype == 'bf16'", {.dtype = DType::bf16}));
  EXPECT_FALSE(holds("dtype == 'bf16'", {.dtype = DType::f16}));
  EXPECT_TRUE(holds("dtype != \"bf16\"", {.dtype = DType::f16}));
  EXPECT_TRUE(holds("dtype in ['bf16', 'f16']", {.dtype = DType::f16}));
  EXPECT_FALSE(holds("dtype in ['bf16', 'f16']"));
  EXPECT_TRUE(holds("dtype not in ['bf16', 'f16']"));
}

TEST(Condition, AsksForTheDevice) {
  EXPECT_TRUE(holds("device == 'cpu'"));
  EXPECT_TRUE(holds("device == 'cuda'", {.device = {DeviceType::cuda, 3}}));
  EXPECT_FALSE(holds("device == 'cpu'", {.device = {DeviceType::cuda, 0}}));
}

TEST(Condition, AsksForFlags) {
  EXPECT_FALSE(holds("fast"));
  EXPECT_TRUE(holds("fast", {.fast = true}));
  EXPECT_TRUE(holds("not fast"));
  EXPECT_TRUE(holds("fast == true", {.fast = true}));
  EXPECT_TRUE(holds("fast != true"));
  EXPECT_TRUE(holds("fast == false"));
  EXPECT_TRUE(holds("fast in [true, false]"));
}

TEST(Condition, AsksWhetherAnOptionalTensorIsGiven) {
  EXPECT_FALSE(holds("state"));
  EXPECT_TRUE(holds("state", {.state = true}));
  EXPECT_TRUE(holds("cu_seqlens", {.packed = 1}));
  EXPECT_TRUE(holds("not out"));
}

TEST(Condition, ComparesNumbersAsTheFloatsThatTheyAre) {
  EXPECT_TRUE(holds("scale == 0.1", {.scale = 0.1f}));
  EXPECT_FALSE(holds("scale < 0.1", {.scale = 0.1f}));
  EXPECT_TRUE(holds("scale > 0.1", {.scale = std::nextafter(0.1f, 1.0f)}));
  EXPECT_TRUE(holds("scale == 1", {.scale = 1.0f}));
  EXPECT_TRUE(holds("lower_bound < -4.5 and lower_bound >= -5e0", {.lower_bound = -5.0f}));
  EXPECT_TRUE(holds("lower_bound < 0 and lower_bound < +.5", {.lower_bound = -0.25f}));
  EXPECT_TRUE(holds("scale == 0 and scale >= 0 and scale <= 0", {.scale = -0.0f}));
  EXPECT_TRUE(holds("scale > 1e-40", {.scale = 1.0f}));
  EXPECT_TRUE(holds("scale > 3e38", {.scale = std::numeric_limits<float>::infinity()}));
  EXPECT_FALSE(holds("scale > 0 or scale <= 0", {.scale = std::numeric_limits<float>::quiet_NaN()}));
}

TEST(Condition, ComparesIntegersExactly) {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 53) + 1;
  EXPECT_TRUE(holds("depth == 9007199254740993 and depth > 9007199254740992", {.depth = kLarge}));
  EXPECT_TRUE(holds("depth in [3, 5] and depth < 6 and depth != 4", {.depth = 5}));
  EXPECT_TRUE(holds("depth < 0", {.depth = std::numeric_limits<std::int64_t>::min()}));
  EXPECT_FALSE(holds("depth < 0 or depth >= 0"));
}

TEST(Condition, NumberAloneAsksWhetherItIsGiven) {
  EXPECT_FALSE(holds("scale"));
  EXPECT_TRUE(holds("scale", {.scale = 0.0f}));
  EXPECT_FALSE(holds("depth"));
  EXPECT_TRUE(holds("depth", {.depth = 0}));
}

TEST(Condition, ComparisonWithWhatWasLeftOutDoesNotHold) {
  EXPECT_FALSE(holds("scale < 1 or scale == 1 or scale > 1"));
  EXPECT_FALSE(holds("scale in [1, 2]"));
}

TEST(Condition, UnequalIsNotEqual) {
  EXPECT_TRUE(holds("scale != 1"));
  EXPECT_TRUE(holds("not scale == 1"));
  EXPECT_TRUE(holds("not scale < 1"));
  EXPECT_TRUE(holds("scale not in [1, 2]"));
}

TEST(Condition, AndBindsTighterThanOr) {
  EXPECT_TRUE(holds("T == 8 or T == 9 and fast"));
  EXPECT_FALSE(holds("(T == 8 or T == 9) and fast"));
  EXPECT_TRUE(holds("fast and T == 9 or T == 8"));
}

TEST(Condition, NotBindsTighterThanAnd) {
  EXPECT_FALSE(holds("not T == 8 and fast"));
  EXPECT_TRUE(holds("not (T == 8 and fast)"));
  EXPECT_FALSE(holds("not (T == 8 or fast)"));
  EXPECT_TRUE(holds("not not T == 8"));
}

TEST(Condition, MayHaveAnySpaceAndManyLines) {
  EXPECT_TRUE(holds("T==8 and not(fast)"));
  EXPECT_TRUE(holds("\n  T\t<\r\n 9\n"));
}

TEST(Condition, TakesTheLargestNumbers) {
  EXPECT_TRUE(holds("T < 9223372036854775807 and T > -9223372036854775808"));
  EXPECT_FALSE(holds("T > 9223372036854775807"));
  EXPECT_FALSE(holds("T < -9223372036854775808"));
  EXPECT_FALSE(holds("T <= -9223372036854775808"));
  EXPECT_TRUE(holds("T >= -9223372036854775808"));
  EXPECT_FALSE(holds("T == -9223372036854775808"));
  EXPECT_TRUE(holds("T != -9223372036854775808"));
}

TEST(Condition, LongListsOfAlternativesAboutOneFactAreOne) {
  std::string text = "T == 0";
  for (int i = 1; i < 2000; ++i) text += " or T == " + std::to_string(2 * i);
  EXPECT_TRUE(holds(text));
  EXPECT_FALSE(holds(text, {.T = 7}));
  EXPECT_TRUE(holds("not (" + text + ")", {.T = 7}));
}

TEST(Condition, MayBeHundredDeep) {
  const std::string text = std::string(99, '(') + "not T == 8" + std::string(99, ')');
  EXPECT_FALSE(holds(text));
}

// ---- what is wrong, and where

struct Wrong {
  std::string text;
  std::size_t offset;
  std::string message;
};
std::ostream& operator<<(std::ostream& out, const Wrong& wrong) { return out << wrong.text; }

void expect_error(const Wrong& wrong) {
  try {
    const Condition condition = parse_condition(wrong.text);
    check_condition(condition, RuledArgs::arguments());
    FAIL() << wrong.text << ": nothing was thrown";
  } catch (const ConditionError& error) {
    EXPECT_EQ(error.what(), wrong.message) << wrong.text;
    EXPECT_EQ(error.offset(), wrong.offset) << wrong.text;
  }
}

class BadSyntax : public testing::TestWithParam<Wrong> {};
TEST_P(BadSyntax, IsRefusedWithItsPlace) {
  EXPECT_THROW((void)parse_condition(GetParam().text), ConditionError);
  expect_error(GetParam());
}

std::string deep(int levels) {
  return std::string(static_cast<std::size_t>(levels), '(') + "T < 1" +
         std::string(static_cast<std::size_t>(levels), ')');
}

INSTANTIATE_TEST_SUITE_P(
    Condition, BadSyntax,
    testing::Values(
        Wrong{"", 0, "expected a name or a constant, got the end"},
        Wrong{"  ", 2, "expected a name or a constant, got the end"},
        Wrong{"T <", 3, "expected a name or a constant, got the end"},
        Wrong{"T < and", 4, "expected a name or a constant, got 'and'"},
        Wrong{"T < 4 fast", 6, "expected 'and', 'or' or the end, got 'fast'"},
        Wrong{"T < 4 and", 9, "expected a name or a constant, got the end"},
        Wrong{"T < 4)", 5, "expected 'and', 'or' or the end, got ')'"},
        Wrong{"(T < 4", 6, "expected ')', got the end"},
        Wrong{"()", 1, "expected a name or a constant, got ')'"},
        Wrong{"not", 3, "expected a name or a constant, got the end"},
        Wrong{"1 < 2", 0, "expected a name on one side of '<'"},
        Wrong{"'bf16'", 0, "expected a name, got ''bf16''"}, Wrong{"true", 0, "expected a name, got 'true'"},
        Wrong{"1 < T < 4", 6, "comparisons cannot be chained: write 'a < b and b < c'"},
        Wrong{"T = 4", 2, "expected '==', got '='"}, Wrong{"T <> 4", 2, "expected '!=', got '<>'"},
        Wrong{"fast && T < 4", 5, "expected 'and', got '&&'"},
        Wrong{"fast || T < 4", 5, "expected 'or', got '||'"}, Wrong{"!fast", 0, "expected 'not', got '!'"},
        Wrong{"T < 4;", 5, "unexpected character ';'"},
        Wrong{"T < 4 \u00fcnd fast", 6, "unexpected character '\u00fc'"},
        Wrong{"dtype == 'bf16", 9, "a text has no closing '"},
        Wrong{"dtype == \"bf16", 9, "a text has no closing \""},
        Wrong{"T < 12x", 4, "expected a number, got '12x'"},
        Wrong{"T < 1.2.3", 4, "expected a number, got '1.2.3'"},
        Wrong{"T < .", 4, "expected a number, got '.'"}, Wrong{"T < -", 4, "unexpected character '-'"},
        Wrong{"T < 9223372036854775808", 4, "the number '9223372036854775808' is out of range"},
        Wrong{"scale < 1e999", 8, "the number '1e999' is out of range"},
        Wrong{"T in", 4, "expected '[' after 'in', got the end"},
        Wrong{"T in 4", 5, "expected '[' after 'in', got '4'"},
        Wrong{"T in []", 6, "expected a constant, got ']'"},
        Wrong{"T in [K]", 6, "expected a constant, got 'K'"},
        Wrong{"T in [1 2]", 8, "expected ',' or ']', got '2'"},
        Wrong{"T in [1,]", 8, "expected a constant, got ']'"},
        Wrong{"T not 4", 6, "expected 'in' after 'not', got '4'"},
        Wrong{"4 in [4]", 0, "expected a name, got '4'"},
        Wrong{deep(101), 100, "expected at most 100 conditions inside each other"},
        Wrong{std::string(100000, '('), 100, "expected at most 100 conditions inside each other"}));

class BadMeaning : public testing::TestWithParam<Wrong> {};
TEST_P(BadMeaning, IsRefusedWithItsPlace) {
  EXPECT_NO_THROW((void)parse_condition(GetParam().text));
  expect_error(GetParam());
}

std::string any_of_pairs(int pairs) {
  std::string text;
  for (int i = 0; i < pairs; ++i) {
    const std::string n = std::to_string(i);
    text += (i == 0 ? "" : " or ") + std::string("T == ") + n + " and K == " + n;
  }
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    Condition, BadMeaning,
    testing::Values(
        Wrong{"dtpye == 'bf16'", 0, "unknown name 'dtpye'; did you mean 'dtype'?"},
        Wrong{"T < 4 and t < 5", 10, "unknown name 't'; did you mean 'T'?"},
        Wrong{"sequence_parallel", 0,
              "unknown name 'sequence_parallel' (known: dtype, device, B, T, H, HV, K, V, N, varlen, scale, "
              "lower_bound, depth, fast, v_first, state, cu_seqlens, out)"},
        Wrong{"T < Kay", 4,
              "unknown name 'Kay' (known: dtype, device, B, T, H, HV, K, V, N, varlen, scale, "
              "lower_bound, depth, fast, v_first, state, cu_seqlens, out)"},
        Wrong{"x", 0, "x is part of every call; there is nothing to ask about it"},
        Wrong{"dtype < 3", 6, "dtype can be compared with == or !=, not with '<'"},
        Wrong{"dtype >= 'bf16'", 6, "dtype can be compared with == or !=, not with '>='"},
        Wrong{"dtype == 3", 9, "dtype is a name such as 'bf16', got 3"},
        Wrong{"dtype == 'bf61'", 9, "there is no dtype 'bf61'; did you mean 'bf16'?"},
        Wrong{"dtype == 'float32'", 9, "there is no dtype 'float32' (known: bf16, f16, f32, i32, i64)"},
        Wrong{"dtype in ['bf16', 16]", 18, "dtype is a name such as 'bf16', got 16"},
        Wrong{"dtype", 0, "dtype cannot stand alone: expected a comparison such as dtype == 'bf16'"},
        Wrong{"device", 0, "device cannot stand alone: expected a comparison such as device == 'cuda'"},
        Wrong{"device == 'gpu'", 10, "there is no device 'gpu'; did you mean 'cpu'?"},
        Wrong{"device == 'cuda:0'", 10, "there is no device 'cuda:0'; did you mean 'cuda'?"},
        Wrong{"device == true", 10, "device is a name such as 'cpu', got true"},
        Wrong{"T", 0, "T cannot stand alone: expected a comparison such as T < 64"},
        Wrong{"depth < 1.5", 8, "depth is a whole number, got 1.5"},
        Wrong{"depth == 'x'", 9, "depth is a whole number, got 'x'"},
        Wrong{"T < depth", 4,
              "expected a constant to compare T with, got depth; only sizes can be compared with each other"},
        Wrong{"T == 'x'", 5, "T is a whole number, got 'x'"},
        Wrong{"T < 1.5", 4, "T is a whole number, got 1.5"},
        Wrong{"T == true", 5, "T is a whole number, got true"},
        Wrong{"'x' == T", 0, "T is a whole number, got 'x'"},
        Wrong{"scale == 'x'", 9, "scale is a number, got 'x'"},
        Wrong{"scale == true", 9, "scale is a number, got true"},
        Wrong{"scale < 1e39", 8, "scale is a 32-bit float, got 1e39"},
        Wrong{"fast < 1", 5, "fast can be compared with == or !=, not with '<'"},
        Wrong{"fast == 1", 8, "fast is true or false, got 1"},
        Wrong{"varlen == 'yes'", 10, "varlen is true or false, got 'yes'"},
        Wrong{"state == 1", 9, "state is true or false, got 1"},
        Wrong{"T == dtype", 5,
              "expected a constant to compare T with, got dtype; only sizes can be compared with each other"},
        Wrong{"fast == v_first", 8,
              "expected a constant to compare fast with, got v_first; only sizes can be compared with each "
              "other"},
        Wrong{any_of_pairs(129), 0,
              "more than 256 comparisons; write 'x in [a, b]' for many values of one name, or several rules"},
        Wrong{"fast and (" + any_of_pairs(128) + ")", 0,
              "more than 256 comparisons; write 'x in [a, b]' for many values of one name, or several "
              "rules"}));

TEST(Condition, MayHave256Comparisons) {
  EXPECT_TRUE(holds(any_of_pairs(128), {.T = 127, .K = 127}));
  EXPECT_FALSE(holds(any_of_pairs(128), {.T = 127, .K = 126}));
}

TEST(Condition, KeepsItsText) { EXPECT_EQ(parse_condition("T  <  4").text(), "T  <  4"); }

}  // namespace
