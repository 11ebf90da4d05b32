#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fla/dispatch/rules/condition.h"
#include "fla/ops/kda/kda.h"
#include "tests/dispatch/config/ruled.h"

namespace {

using fla::DType;
using fla::dispatch::Condition;
using fla::dispatch::Decision;
using fla::dispatch::parse_condition;
using fla_test::arguments_of;
using fla_test::Call;
using fla_test::RuledArgs;
using fla_test::RuledStepArgs;

/// Rules by their conditions; an empty one always holds.
class Rules {
 public:
  explicit Rules(const std::vector<std::string>& texts, fla::ArgumentTable table = RuledArgs::arguments()) {
    conditions_.reserve(texts.size());
    for (const std::string& text : texts) {
      if (!text.empty()) conditions_.push_back(parse_condition(text));
      pointers_.push_back(text.empty() ? nullptr : &conditions_.back());
    }
    decision_ = std::make_unique<Decision>(pointers_, table);
  }

  int first(const Call& call = {}) const {
    const RuledArgs args = arguments_of(call);
    return decision_->first(&args);
  }
  int first_of(const void* args) const { return decision_->first(args); }

 private:
  std::vector<Condition> conditions_;
  std::vector<const Condition*> pointers_;
  std::unique_ptr<Decision> decision_;
};

TEST(Decision, NamesTheFirstRuleThatHolds) {
  const Rules rules({"T < 4", "T < 16 and fast", "T < 16", "K == 64"});
  EXPECT_EQ(rules.first({.T = 3}), 0);
  EXPECT_EQ(rules.first({.T = 8, .fast = true}), 1);
  EXPECT_EQ(rules.first({.T = 8}), 2);
  EXPECT_EQ(rules.first({.T = 99}), 3);
  EXPECT_EQ(rules.first({.T = 99, .K = 65}), -1);
}

TEST(Decision, WithoutRulesNamesNone) { EXPECT_EQ(Rules({}).first(), -1); }

TEST(Decision, RuleWithoutAConditionAlwaysHolds) {
  EXPECT_EQ(Rules({"T < 4", "", "T < 16"}).first({.T = 3}), 0);
  EXPECT_EQ(Rules({"T < 4", "", "T < 16"}).first({.T = 8}), 1);
}

TEST(Decision, RuleThatCannotHoldIsPassedOver) {
  EXPECT_EQ(Rules({"T < 4 and T > 4", "T < 0 and T == 3", "T == 8"}).first(), 2);
}

TEST(Decision, RuleAboutWhatTheFunctionDoesNotHaveNeverHolds) {
  const RuledStepArgs args{.x = fla::TensorView(nullptr, DType::f32, {1, 2, 64})};
  const Rules rules({"T < 99", "not T < 99", "only_in_steps", "K == 64"}, RuledStepArgs::arguments());
  EXPECT_EQ(rules.first_of(&args), 3);
}

TEST(Decision, HasAsManyRulesAsAnybodyWrites) {
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) {
    const std::string n = std::to_string(i);
    texts.push_back("T == " + n + " and (fast or K == " + n + ")");
  }
  const Rules rules(texts);
  for (const int T : {0, 1, 62, 63, 64, 65, 500, 511, 512, 999}) {
    EXPECT_EQ(rules.first({.T = T, .fast = true}), T);
    EXPECT_EQ(rules.first({.T = T, .K = T}), T);
    EXPECT_EQ(rules.first({.T = T, .K = T + 1}), -1);
  }
}

TEST(Decision, TensorsThatAreNotThereHaveNoSizes) {
  const Rules rules({"T >= 0", "dtype in ['bf16', 'f16', 'f32', 'i32', 'i64']", "device in ['cpu', 'cuda']",
                     "N >= 0", "HV >= 0"});
  const RuledArgs nothing{};
  EXPECT_EQ(rules.first_of(&nothing), -1);
}

TEST(Decision, SizesOfOptionalTensorsAreFoundByTheRuleInForce) {
  struct Args {
    fla::TensorView a{};
    bool turned = false;
  };
  using fla::Argument;
  const Argument table[] = {
      {"a", fla::ArgumentKind::tensor, fla::Need::optional, fla::kFloatTypes, "K V; turned: V K", "", "",
       [](const void* args) -> const void* { return &static_cast<const Args*>(args)->a; }},
      {"turned",
       fla::ArgumentKind::flag,
       fla::Need::optional,
       {},
       {},
       "",
       "",
       [](const void* args) -> const void* { return &static_cast<const Args*>(args)->turned; }}};
  const Rules rules({"K == 3 and V == 5", "K < V"}, table);
  const fla::TensorView view(nullptr, DType::f32, {3, 5});
  const Args straight{view, false}, turned{view, true}, none{};
  EXPECT_EQ(rules.first_of(&straight), 0);
  EXPECT_EQ(rules.first_of(&turned), -1);
  EXPECT_EQ(rules.first_of(&none), -1);
}

TEST(Decision, KnowsTheNamesOfKda) {
  const std::string all =
      "dtype == 'f32' and device == 'cpu' and B == 1 and T == 3 and H == 2 and HV == 4 and K == 8 and V == "
      "16 and "
      "N == 1 and not varlen and not scale and not initial_state and not output_final_state and safe_gate "
      "and "
      "lower_bound < -4 and not state_v_first and not cu_seqlens and not A_log and not dt_bias and not out";
  const fla::TensorView q(nullptr, DType::f32, {1, 3, 2, 8}), v(nullptr, DType::f32, {1, 3, 4, 16});
  const fla::KdaArgs args{.q = q, .k = q, .v = v, .safe_gate = true, .lower_bound = -5};
  EXPECT_NO_THROW(check_condition(parse_condition(all), fla::KdaArgs::arguments()));
  EXPECT_EQ(Rules({all}, fla::KdaArgs::arguments()).first_of(&args), 0);
}

TEST(Decision, KnowsTheSlotsOfKdasPool) {
  const fla::TensorView q(nullptr, DType::f32, {3, 1, 2, 8}), pool(nullptr, DType::f32, {9, 2, 8, 8});
  const fla::TensorView slots(nullptr, DType::i32, {3}), starts(nullptr, DType::i32, {4});
  const Rules rules({"varlen", "P > 4", "P == 3 and not state_indices", "P == N and state_indices"},
                    fla::KdaArgs::arguments());
  const auto rule_for = [&rules](const fla::KdaArgs& args) { return rules.first_of(&args); };
  EXPECT_EQ(rule_for({.q = q, .k = q, .v = q}), 2) << "without indices there are as many as sequences";
  EXPECT_EQ(rule_for({.q = q, .k = q, .v = q, .initial_state = pool, .state_indices = slots}), 1);
  EXPECT_EQ(rule_for({.q = q, .k = q, .v = q, .state_indices = slots, .final_state = pool}), 1);
  EXPECT_EQ(rule_for({.q = q, .k = q, .v = q, .initial_state = pool.slice(0, 0, 3), .state_indices = slots}),
            3);
  EXPECT_EQ(rule_for({.q = q, .k = q, .v = q, .cu_seqlens = starts}), 0) << "slots are no packed sequences";
}

// ---- as large as a file may be: one step after the other on all that was there before would take minutes

/// "T <relation> 0 <join> T <relation> 2 <join> …"
std::string chain(const std::string& relation, const std::string& join, int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (i == 0 ? "T " : " " + join + " T ") + relation + " " + std::to_string(2 * i);
  return text;
}

TEST(LargeCondition, ListIsWorkedOut) {
  constexpr int kCount = 100'000;
  std::string list = "T in [0";
  for (int i = kCount - 1; i > 0; --i) list += ", " + std::to_string(2 * i);
  const Rules rules({list + "]", "not (" + list + "])"});
  EXPECT_EQ(rules.first({.T = 0}), 0);
  EXPECT_EQ(rules.first({.T = 2 * kCount - 2}), 0);
  EXPECT_EQ(rules.first({.T = 2 * kCount}), 1);
  EXPECT_EQ(rules.first({.T = 77'777}), 1);
}

TEST(LargeCondition, ChainsOfOrAndOfAndAreWorkedOut) {
  constexpr int kCount = 50'000;
  const Rules any({chain("==", "or", kCount)}), none({chain("!=", "and", kCount)}),
      inverted({"not (" + chain("==", "or", kCount) + ")"});
  for (const int T : {0, 2, 77'778, 2 * kCount - 2}) {
    EXPECT_EQ(any.first({.T = T}), 0);
    EXPECT_EQ(none.first({.T = T}), -1);
    EXPECT_EQ(inverted.first({.T = T}), -1);
  }
  for (const int T : {1, 77'777, 2 * kCount}) {
    EXPECT_EQ(any.first({.T = T}), -1);
    EXPECT_EQ(none.first({.T = T}), 0);
    EXPECT_EQ(inverted.first({.T = T}), 0);
  }
}

TEST(LargeCondition, ThousandsOfRulesAreWorkedOut) {
  std::vector<std::string> texts;
  for (int i = 0; i < 6000; ++i) texts.push_back("T == " + std::to_string(2 * i));
  const Rules rules(texts);
  EXPECT_EQ(rules.first({.T = 0}), 0);
  EXPECT_EQ(rules.first({.T = 11'998}), 5999);
  EXPECT_EQ(rules.first({.T = 5001}), -1);
}

TEST(LargeCondition, WithTooManyComparisonsIsRefused) {
  std::string text = "(T == 0 and H == 1)";
  for (int i = 1; i < 20'000; ++i) text += " or (T == " + std::to_string(2 * i) + " and H == 1)";
  try {
    check_condition(parse_condition(text), RuledArgs::arguments());
    FAIL() << "it was accepted";
  } catch (const fla::dispatch::ConditionError& error) {
    EXPECT_EQ(std::string(error.what()),
              "more than 256 comparisons; write 'x in [a, b]' for many values of one name, or several rules");
  }
}

// ---- random conditions, held to what they say

struct Random {
  std::mt19937_64 engine;
  int below(int most) { return static_cast<int>(engine() % static_cast<std::uint64_t>(most)); }
};

/// A condition as text, and what it means, worked out by plain recursion.
struct Said {
  std::string text;
  std::function<bool(const Call&)> means;
};

Said random_comparison(Random& random) {
  const auto size = [&](const std::string& name, auto member) -> Said {
    const std::int64_t n = random.below(6);
    const std::string number = std::to_string(n);
    switch (random.below(7)) {
      case 0: return {name + " == " + number, [=](const Call& c) { return c.*member == n; }};
      case 1: return {name + " != " + number, [=](const Call& c) { return c.*member != n; }};
      case 2: return {name + " < " + number, [=](const Call& c) { return c.*member < n; }};
      case 3: return {number + " < " + name, [=](const Call& c) { return c.*member > n; }};
      case 4: return {name + " >= " + number, [=](const Call& c) { return c.*member >= n; }};
      case 5: return {name + " <= " + number, [=](const Call& c) { return c.*member <= n; }};
      default:
        return {name + " in [" + number + ", 2]",
                [=](const Call& c) { return c.*member == n || c.*member == 2; }};
    }
  };
  switch (random.below(9)) {
    case 0: return size("T", &Call::T);
    case 1: return size("K", &Call::K);
    case 2: return size("HV", &Call::HV);
    case 3: return {"HV > H", [](const Call& c) { return c.HV > c.H; }};
    case 4: return {"dtype == 'bf16'", [](const Call& c) { return c.dtype == DType::bf16; }};
    case 5: return {"fast", [](const Call& c) { return c.fast; }};
    case 6: return {"scale", [](const Call& c) { return c.scale.has_value(); }};
    case 7: return {"scale < 2", [](const Call& c) { return c.scale && *c.scale < 2; }};
    default: return {"N == 2", [](const Call& c) { return (c.packed >= 0 ? c.packed : c.B) == 2; }};
  }
}

Said random_condition(Random& random, int depth) {
  if (depth == 0) return random_comparison(random);
  const Said a = random_condition(random, depth - 1);
  const std::string left = a.text;
  const auto means = a.means;
  switch (random.below(4)) {
    case 0: return {"not (" + left + ")", [means](const Call& c) { return !means(c); }};
    case 1: return a;
    default: break;
  }
  const Said b = random_condition(random, depth - 1);
  const auto other = b.means;
  if (random.below(2) == 0) {
    return {"(" + left + ") and (" + b.text + ")",
            [means, other](const Call& c) { return means(c) && other(c); }};
  }
  return {"(" + left + ") or (" + b.text + ")",
          [means, other](const Call& c) { return means(c) || other(c); }};
}

Call random_call(Random& random) {
  Call call{.B = random.below(4),
            .T = random.below(7),
            .H = random.below(3),
            .HV = random.below(7),
            .K = random.below(7),
            .dtype = random.below(2) == 0 ? DType::bf16 : DType::f32,
            .packed = random.below(4) - 1,
            .fast = random.below(2) == 0};
  if (random.below(2) == 0) call.scale = static_cast<float>(random.below(4));
  return call;
}

TEST(Decision, AgreesWithPlainRecursionOnRandomRules) {
  Random random{std::mt19937_64(20240611)};
  int held = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Said> rules;
    std::vector<std::string> texts;
    const int count = 1 + random.below(30);
    while (static_cast<int>(rules.size()) < count) {
      Said rule = random_condition(random, random.below(4));
      texts.push_back(rule.text);
      rules.push_back(std::move(rule));
    }
    const Rules decision(texts);
    for (int i = 0; i < 50; ++i) {
      const Call call = random_call(random);
      const auto found = std::ranges::find_if(rules, [&call](const Said& rule) { return rule.means(call); });
      const int expected = found == rules.end() ? -1 : static_cast<int>(found - rules.begin());
      held += expected > 0 ? 1 : 0;
      ASSERT_EQ(decision.first(call), expected)
          << (expected < 0 ? "" : texts[static_cast<std::size_t>(expected)]);
    }
  }
  EXPECT_GT(held, 1000) << "the rules hold often enough to mean something";
}

}  // namespace
