#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "fla/dispatch/config/config.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tests/dispatch/config/config_in_force.h"
#include "tests/dispatch/mix.h"
#include "tests/lifetime/live_memory.h"

namespace {

/// Bytes that `change` leaves behind a time, once everything that keeps a number of the last ones is full.
double growth(int before, int times, const std::function<void(int)>& change) {
  for (int i = 0; i < before; ++i) change(i);
  const auto start = static_cast<double>(fla_test::live_memory());
  for (int i = 0; i < times; ++i) change(before + i);
  return (static_cast<double>(fla_test::live_memory()) - start) / times;
}

TEST(Growth, ProcessPoliciesLeaveNothingBehind) {
  const auto change = [](int i) {
    fla::set_policy({.breaker_cool_down_ms = i});
    (void)fla_test::selected_backend();
  };
  EXPECT_LT(growth(2'000, 20'000, change), 4);
  fla::set_policy({});
}

TEST(Growth, ScopedPoliciesLeaveNothingBehind) {
  const auto change = [](int i) {
    const fla::ScopedPolicy policy({.breaker_cool_down_ms = i});
    (void)fla_test::selected_backend();
  };
  EXPECT_LT(growth(2'000, 20'000, change), 4);
}

TEST(Growth, BackendsOfOneNameLeaveNothingBehind) {
  const auto change = [](int) {
    const auto backend = fla_test::add({.name = "brief", .priority = 1});
    ASSERT_EQ(fla_test::selected_backend(), "brief");
  };
  EXPECT_LT(growth(200, 20'000, change), 4);
}

TEST(Growth, BackendsOfManyNamesLeaveNothingBehind) {
  const auto change = [](int i) {
    const std::string name = "brief_" + std::to_string(1'000'000 + i);
    const auto backend = fla_test::add({.name = name, .priority = 1});
    ASSERT_EQ(fla_test::selected_backend(), name);
  };
  EXPECT_LT(growth(200, 20'000, change), 4);
}

TEST(Growth, ConfigurationsLeaveNothingBehind) {
  const auto text = [](int i) {
    const std::string number = std::to_string(1'000 + i);
    return "breaker.cool_down_ms = " + number + "\n[[rule]]\nop = 'kda'\nwhen = 'T < " + number +
           "'\ndisable_dispatch = true\n";
  };
  const fla_test::ConfigInForce config(text(0));
  const float one = 1;
  const fla::TensorView tensor(&one, fla::DType::f32, {1, 1, 1, 1});
  const fla::KdaArgs args{
      .q = tensor, .k = tensor, .v = tensor, .g = tensor, .beta = {&one, fla::DType::f32, {1, 1, 1}}};
  const auto change = [&](int i) {
    config.replace(text(i));
    fla::reload_config();
    (void)fla::chunk_kda(args);
  };
  EXPECT_LT(growth(300, 500, change), 100);  // the watch, which reads along, allocates and frees meanwhile
}

TEST(Growth, EndedThreadsLeaveNothingBehind) {
  const auto change = [](int) { std::thread([] { (void)fla_test::selected_backend(); }).join(); };
  EXPECT_LT(growth(100, 1'000, change), 40);
}

}  // namespace
