#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/failure/breaker.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/dispatch/mix.h"

namespace {

using fla_test::MixArgs;
using fla_test::MixResult;
using fla_test::selected_backend;

/// A backend that a program takes out again, and whether it still lives.
class Mortal {
 public:
  using Body = std::function<void()>;
  explicit Mortal(Body body = {}, Body at_its_end = {}) {
    const std::shared_ptr<int> life(new int, [at_its_end](const int* token) {
      delete token;
      if (at_its_end) at_its_end();
    });
    life_ = life;
    backend_.emplace(fla_test::add({.name = "mortal", .priority = 1, .run = [life, body](const MixArgs&) {
                                      if (body) body();
                                      return MixResult{"mortal"};
                                    }}));
  }

  void remove() { backend_.reset(); }
  bool lives() const { return !life_.expired(); }

 private:
  std::weak_ptr<int> life_;
  std::optional<fla::RegisteredBackend> backend_;
};

TEST(BackendLife, EndsAtOnceWhenItWasNeverCalled) {
  Mortal mortal;
  mortal.remove();
  EXPECT_FALSE(mortal.lives());
}

TEST(BackendLife, EndsWhenTheThreadThatCalledItCallsAgain) {
  Mortal mortal;
  ASSERT_EQ(selected_backend(), "mortal");
  mortal.remove();
  EXPECT_EQ(selected_backend(), "original");
  EXPECT_FALSE(mortal.lives());
}

TEST(BackendLife, EndsWithTheThreadThatCalledIt) {
  Mortal mortal;
  std::thread([&mortal] {
    ASSERT_EQ(selected_backend(), "mortal");
    mortal.remove();
  }).join();
  EXPECT_FALSE(mortal.lives());
}

TEST(BackendLife, EndsWithTheLastPlanThatChoseIt) {
  Mortal mortal;
  std::optional<fla::Plan<MixArgs>> plan = fla::plan("mix", "mix_chunk", MixArgs{});
  std::optional<fla::Plan<MixArgs>> copy = plan;
  mortal.remove();
  EXPECT_EQ(selected_backend(), "original");
  plan.reset();
  EXPECT_TRUE(mortal.lives());
  EXPECT_EQ(copy->backend(), "mortal");
  EXPECT_EQ((*copy)({}).by, "mortal");
  copy.reset();
  EXPECT_FALSE(mortal.lives());
}

TEST(BackendLife, LastsForACallThatTakesItOutAndCallsWithOthers) {
  std::unique_ptr<Mortal> mortal;
  mortal = std::make_unique<Mortal>([&mortal] {
    mortal->remove();
    for (int i = 0; i < 3; ++i) {
      fla::set_policy({.breaker_threshold = i + 1});
      EXPECT_EQ(selected_backend(), "original");
    }
    EXPECT_TRUE(mortal->lives());
  });
  EXPECT_EQ(selected_backend(), "mortal");
  fla::set_policy({});
  EXPECT_EQ(selected_backend(), "original");
  EXPECT_FALSE(mortal->lives());
}

TEST(BackendLife, LastsForACallThatEndsItsScopedPolicyAndFails) {
  std::optional<fla::ScopedPolicy> policy;
  Mortal mortal([&policy] {
    policy.reset();
    EXPECT_EQ(fla_test::mix_step({}).by, "original step");
    throw fla::BackendError("no workspace", fla::BackendError::Wrote::nothing);
  });
  policy.emplace(fla::Policy{.on_failure = fla::OnFailure::fallback});
  EXPECT_EQ(selected_backend(), "original") << "as the policy said that was in force when the call began";
}

TEST(BackendLife, EndsWithNoLockHeld) {
  int rows = 0;
  Mortal mortal({}, [&rows] {
    fla::set_policy({});
    EXPECT_EQ(selected_backend(), "original");
    rows = static_cast<int>(fla::counters().size());
  });
  ASSERT_EQ(selected_backend(), "mortal");
  mortal.remove();
  EXPECT_EQ(selected_backend(), "original");
  EXPECT_FALSE(mortal.lives());
  EXPECT_GT(rows, 0);
}

TEST(BackendLife, CountersOfManyThatAreGoneAddUp) {
  const auto total = [](std::string_view prefix, int& rows) {
    std::uint64_t taken = 0;
    rows = 0;
    for (const fla::BackendCounters& row : fla::counters()) {
      if (row.function != "mix_chunk" || !row.backend.starts_with(prefix)) continue;
      taken += row.taken;
      ++rows;
    }
    return taken;
  };
  int rows = 0;
  const std::uint64_t before = total("(removed)", rows);
  for (int i = 0; i < 200; ++i) {
    const std::string name = "many_" + std::to_string(i);
    const auto backend = fla_test::add({.name = name, .priority = 1});
    ASSERT_EQ(selected_backend(), name);
  }
  ASSERT_EQ(selected_backend(), "original");
  const std::uint64_t kept = total("many_", rows);
  EXPECT_LE(rows, 128);
  EXPECT_GT(rows, 32);
  int removed_rows = 0;
  EXPECT_GE(total("(removed)", removed_rows), before + 200 - kept);
  EXPECT_EQ(removed_rows, 1);
  EXPECT_EQ(kept, static_cast<std::uint64_t>(rows));
}

TEST(Listeners, OneThatOwnsAnotherSubscriptionEndsBoth) {
  auto calls = std::make_shared<int>(0);
  fla::Subscription inner = fla::on_breaker_change([calls](const fla::BreakerEvent&) { ++*calls; });
  fla::Subscription outer =
      fla::on_breaker_change([owned = std::make_shared<fla::Subscription>(std::move(inner)),
                              calls](const fla::BreakerEvent&) { ++*calls; });
  outer.reset();
  const auto breaker = fla::dispatch::new_breaker("mix", "mix_chunk", "heard");
  breaker->failed({.threshold = 1}, "no workspace");
  EXPECT_EQ(*calls, 0);
}

}  // namespace
