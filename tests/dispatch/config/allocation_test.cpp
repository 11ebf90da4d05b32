#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fla/dispatch/rules/condition.h"
#include "tests/dispatch/config/config_in_force.h"
#include "tests/dispatch/config/ruled.h"
#include "tools/conformance/allocations.h"

namespace {

using fla::dispatch::Condition;
using fla::dispatch::Decision;
using fla_test::arguments_of;
using fla_test::RuledArgs;

/// Of this thread: the one that watches the file has work of its own.
template <class Body>
std::uint64_t allocations_of(Body&& body) {
  for (int i = 0; i < 3; ++i) body();
  const std::uint64_t before = fla_test::allocations_of_this_thread();
  for (int i = 0; i < 100; ++i) body();
  return fla_test::allocations_of_this_thread() - before;
}

TEST(RuleAllocation, NoneWhileConditionsAreEvaluated) {
  const std::string everything =
      "dtype == 'bf16' and device == 'cpu' and T < 64 and N >= 1 and HV > H and scale < 3 and fast and not "
      "varlen "
      "and (state or out or lower_bound)";
  std::vector<Condition> conditions;
  for (int i = 0; i < 200; ++i)
    conditions.push_back(fla::dispatch::parse_condition(everything + " and K == " + std::to_string(i)));
  std::vector<const Condition*> rules;
  for (const Condition& condition : conditions) rules.push_back(&condition);
  const Decision decision(rules, RuledArgs::arguments());
  const RuledArgs holds = arguments_of({.T = 8,
                                        .H = 2,
                                        .HV = 4,
                                        .K = 199,
                                        .dtype = fla::DType::bf16,
                                        .state = true,
                                        .fast = true,
                                        .scale = 1.0f});
  const RuledArgs none = arguments_of({});
  ASSERT_EQ(decision.first(&holds), 199);
  ASSERT_EQ(decision.first(&none), -1);
  EXPECT_EQ(allocations_of([&] { (void)decision.first(&holds); }), 0u);
  EXPECT_EQ(allocations_of([&] { (void)decision.first(&none); }), 0u);
}

TEST(RuleAllocation, NoneInACallUnderRules) {
  const auto alpha = fla_test::add_ruled("alpha", 1);
  const auto beta = fla_test::add_ruled("beta", 2);
  const fla_test::ConfigInForce config("[[rule]]\nop = 'ruled'\nwhen = 'T < 64'\norder = ['beta']\n");
  const RuledArgs shorter = arguments_of({.T = 8}), longer = arguments_of({.T = 80});
  ASSERT_EQ(fla_test::ruled_chunk(shorter).by, "beta");
  ASSERT_EQ(fla_test::ruled_chunk(longer).by, "alpha");
  EXPECT_EQ(allocations_of([&] { (void)fla_test::ruled_chunk(shorter); }), 0u);
  EXPECT_EQ(allocations_of([&] { (void)fla_test::ruled_chunk(longer); }), 0u);
}

}  // namespace
