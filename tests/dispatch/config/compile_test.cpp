#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>

#include "fla/dispatch/call/dispatch.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/config/config.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/dispatch/config/config_in_force.h"
#include "tests/dispatch/config/ruled.h"

/// When rules are worked out: never while a call waits. An op whose table tells where its arguments lie by a
/// function that notices being asked about memory that is no call's.
namespace looked_at {

struct Args {
  using Result = int;
  fla::TensorView x{};
  static fla::ArgumentTable arguments();
};
int look(const Args& args);
namespace original {
int look(const Args& args);
}

std::atomic<const void*> call{nullptr};      // the arguments of the call that is under way
std::atomic<int> asked_of_others{0};         // about memory that is not the call's
std::atomic<void (*)()> meanwhile{nullptr};  // done when that happens

fla::ArgumentTable Args::arguments() {
  static const fla::Argument table[] = {{"x", fla::ArgumentKind::tensor, fla::Need::required,
                                         fla::kFloatTypes, "B T", "", "",
                                         [](const void* args) -> const void* {
                                           if (args != call.load()) {
                                             ++asked_of_others;
                                             if (auto* act = meanwhile.exchange(nullptr)) act();
                                           }
                                           return &static_cast<const Args*>(args)->x;
                                         }}};
  return table;
}

DISPATCH("looked_at", int, look, const Args&) { return 1; }

}  // namespace looked_at

namespace {

using fla_test::ConfigInForce;
using fla_test::ruled_backend;

int look(std::int64_t T) {
  const looked_at::Args args{.x = fla::TensorView(nullptr, fla::DType::f32, {1, T})};
  looked_at::call = &args;
  const int result = looked_at::look(args);
  looked_at::call = nullptr;
  return result;
}

constexpr const char* kLookedAtRule =
    "[[rule]]\nop = 'looked_at'\nwhen = 'T in [1, 5]'\ndisable_dispatch = true\n";

std::future<void> other_call;
std::atomic<bool> other_call_went_on{false};

TEST(RuleCompilation, LetsCallsOfOtherThreadsGoOn) {
  const ConfigInForce config(kLookedAtRule);
  looked_at::meanwhile = [] {
    // With a policy of its own, so that the call asks the registry.
    other_call = std::async(std::launch::async, [] {
      const fla::ScopedPolicy policy({.check_verifiers = true});
      (void)ruled_backend();
    });
    other_call_went_on = other_call.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  };
  fla::reload_config();
  EXPECT_EQ(looked_at::meanwhile.load(), nullptr) << "the rule was worked out by reload_config itself";
  other_call.wait();
  EXPECT_TRUE(other_call_went_on);
}

TEST(RuleCompilation, IsOverBeforeTheFirstCall) {
  const ConfigInForce config(kLookedAtRule);
  fla::reload_config();
  looked_at::asked_of_others = 0;
  EXPECT_EQ(look(5), 1);
  EXPECT_EQ(look(6), 1);
  {
    const fla::ScopedPolicy policy({.check_verifiers = true});
    EXPECT_EQ(look(5), 1);
  }
  EXPECT_EQ(looked_at::asked_of_others, 0);
}

}  // namespace
