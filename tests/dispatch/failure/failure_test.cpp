#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/breaker_clock.h"
#include "tests/dispatch/breaker_events.h"
#include "tests/dispatch/captured_log.h"
#include "tests/dispatch/counted.h"
#include "tests/dispatch/explained.h"
#include "tests/dispatch/mix.h"

namespace {

using fla::BackendError;
using fla::BreakerState;
using fla::DeviceLost;
using fla_test::add;
using fla_test::BreakerClock;
using fla_test::BreakerEvents;
using fla_test::counted;
using fla_test::error_text;
using fla_test::MixArgs;
using fla_test::MixResult;
using fla_test::ReloadedEnvironment;
using fla_test::selected_backend;
using fla_test::standing_of;

/// A backend that throws what the test gives, before one that works.
class Failure : public testing::Test {
 protected:
  template <class Error>
  fla::RegisteredBackend failing_with(Error error) {
    return add(
        {.name = "failing", .priority = 1, .run = [error](const MixArgs&) -> MixResult { throw error; }});
  }
  fla::RegisteredBackend next_ = add({.name = "next", .priority = 2});
};

TEST_F(Failure, IsRaisedUnlessSet) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend(); }), "out of workspace");
}

TEST_F(Failure, FallsBackToTheNextBackendWhenNothingWasWritten) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  const ReloadedEnvironment environment{{"FLA_ON_FAILURE", "fallback"}};
  EXPECT_EQ(selected_backend(), "next");
}

TEST_F(Failure, FallsBackToTheOriginalWhenNoOtherBackendTakesTheCall) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  const fla::ScopedPolicy policy({.deny = {{"next"}}, .on_failure = fla::OnFailure::fallback});
  EXPECT_EQ(selected_backend(), "original");
}

TEST_F(Failure, IsWarnedAboutWhenTheCallGoesOn) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
  const fla_test::CapturedLog log;
  (void)selected_backend();
  ASSERT_FALSE(log.lines().empty());
  EXPECT_EQ(
      log.lines()[0],
      "warning: [FLA Backend] mix.mix_chunk: backend failing failed, the call goes on: out of workspace");
}

TEST_F(Failure, AfterAWriteIsRaisedAsItIs) {
  const auto failing = failing_with(BackendError("half way", BackendError::Wrote::maybe));
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
  try {
    (void)selected_backend();
    FAIL() << "nothing was thrown";
  } catch (const BackendError& error) {
    EXPECT_STREQ(error.what(), "half way");
    EXPECT_EQ(error.wrote(), BackendError::Wrote::maybe);
  }
}

TEST_F(Failure, OfAnotherKindBecomesABackendErrorThatNamesFunctionAndBackend) {
  const auto failing = failing_with(std::runtime_error("segment too long"));
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
  try {
    (void)selected_backend();
    FAIL() << "nothing was thrown";
  } catch (const BackendError& error) {
    EXPECT_STREQ(error.what(), "mix.mix_chunk: backend failing failed: segment too long");
    EXPECT_EQ(error.wrote(), BackendError::Wrote::maybe);
    EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
  }
}

TEST_F(Failure, OfNoExceptionTypeBecomesABackendErrorToo) {
  const auto failing = failing_with(5);
  EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend(); }),
            "mix.mix_chunk: backend failing failed: an exception of unknown type");
}

TEST_F(Failure, OfARequiredBackendNeverFallsBack) {
  const auto failing = failing_with(BackendError("out of workspace", BackendError::Wrote::nothing));
  const fla::ScopedPolicy policy({.require = {{"mix", "failing"}}, .on_failure = fla::OnFailure::fallback});
  EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend(); }), "out of workspace");
}

TEST_F(Failure, ErrorsHaveOneBase) {
  const auto failing = failing_with(std::runtime_error("x"));
  EXPECT_THROW((void)selected_backend(), fla::Error);
}

TEST_F(Failure, ThatLostTheDeviceIsRaisedAsItIsAndNoOtherBackendIsAsked) {
  int asked = 0;
  const auto curious = add({.name = "curious", .priority = 2, .verify = [&asked](const MixArgs&) {
                              ++asked;
                              return fla::accept();
                            }});
  const auto failing = failing_with(DeviceLost("CUDA error 719: unspecified launch failure"));
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
  const auto before = counted("failing");
  try {
    (void)selected_backend();
    FAIL() << "nothing was thrown";
  } catch (const DeviceLost& error) {
    EXPECT_STREQ(error.what(), "CUDA error 719: unspecified launch failure");
    EXPECT_EQ(error.wrote(), BackendError::Wrote::maybe);
  }
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(counted("failing").failed, before.failed + 1);
  EXPECT_EQ(counted("failing").fell_back, before.fell_back);
}

TEST_F(Failure, ThatLostTheDeviceIsTheLastOfThatBackendUntilTheBreakersAreReset) {
  const BreakerClock clock;
  const auto failing = failing_with(DeviceLost("CUDA error 700: an illegal memory access was encountered"));
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback, .breaker_threshold = 0});
  EXPECT_THROW((void)selected_backend(), DeviceLost);
  BreakerClock::advance_ms(86'400'000);
  EXPECT_EQ(selected_backend(), "next");
  EXPECT_EQ(standing_of("failing"),
            "open: the device is lost: CUDA error 700: an illegal memory access was encountered; not tried "
            "again before reset_breakers()");
  fla::reset_breakers();
  EXPECT_EQ(standing_of("failing"), "selected");
  EXPECT_THROW((void)selected_backend(), DeviceLost);
}

/// A backend that fails as long as the test wants it to, before one that works; two failures open its
/// breaker.
class FailureWithBreaker : public testing::Test {
 protected:
  std::exception_ptr error_ =
      std::make_exception_ptr(BackendError("out of workspace", BackendError::Wrote::nothing));
  BreakerClock clock_;
  BreakerEvents events_{"shaky"};
  fla::RegisteredBackend shaky_ =
      add({.name = "shaky", .priority = 1, .run = [this](const MixArgs&) -> MixResult {
             if (error_ != nullptr) std::rethrow_exception(error_);
             return {"shaky"};
           }});
  fla::RegisteredBackend next_ = add({.name = "next", .priority = 2});
  fla::ScopedPolicy policy_{{.on_failure = fla::OnFailure::fallback,
                             .breaker_threshold = 2,
                             .breaker_window_ms = 1'000,
                             .breaker_cool_down_ms = 4'000}};
};

TEST_F(FailureWithBreaker, SkipsABackendThatFailsTooOften) {
  const auto before = counted("shaky");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(selected_backend(), "next");
  const auto row = counted("shaky");
  EXPECT_EQ(row.taken, before.taken + 2);
  EXPECT_EQ(row.turned_away, before.turned_away + 3);
  EXPECT_EQ(row.breaker, BreakerState::open);
}

TEST_F(FailureWithBreaker, IsExplained) {
  EXPECT_EQ(standing_of("shaky"), "selected");
  (void)selected_backend();
  (void)selected_backend();
  BreakerClock::advance_ms(1'000);
  const fla::Explanation explanation = fla::explain("mix", "mix_chunk", MixArgs{});
  EXPECT_EQ(explanation.selected, "next");
  const auto row = fla_test::row_of("shaky", explanation);
  EXPECT_EQ(row.state, "open");
  EXPECT_EQ(row.reason, "2 failures within 1 s, last: out of workspace; tried again in 3 s");
}

TEST_F(FailureWithBreaker, IsExplainedWhenTheNextCallIsATrial) {
  (void)selected_backend();
  (void)selected_backend();
  BreakerClock::advance_ms(4'000);
  EXPECT_EQ(standing_of("shaky"),
            "selected: 2 failures within 1 s, last: out of workspace; the next call tries it");
  EXPECT_EQ(standing_of("next"), "accepted");
  EXPECT_EQ(counted("shaky").breaker, BreakerState::open) << "asking changes nothing";
}

TEST_F(FailureWithBreaker, TriesTheBackendAgainAfterTheCoolDown) {
  (void)selected_backend();
  (void)selected_backend();
  error_ = nullptr;
  EXPECT_EQ(selected_backend(), "next");
  BreakerClock::advance_ms(4'000);
  EXPECT_EQ(selected_backend(), "shaky");
  EXPECT_EQ(selected_backend(), "shaky");
  EXPECT_EQ(counted("shaky").breaker, BreakerState::closed);
}

TEST_F(FailureWithBreaker, DoesNotHoldAWrongArgumentAgainstTheBackend) {
  error_ = std::make_exception_ptr(fla::InvalidArgument("K", "expected an even number, got 3"));
  for (int i = 0; i < 3; ++i) EXPECT_THROW((void)selected_backend(), fla::InvalidArgument);
  EXPECT_TRUE(events_.lines().empty());
}

TEST_F(FailureWithBreaker, DoesNotHoldAMachineWithoutMemoryAgainstTheBackend) {
  error_ = std::make_exception_ptr(std::bad_alloc());
  for (int i = 0; i < 3; ++i) EXPECT_THROW((void)selected_backend(), std::bad_alloc);
  EXPECT_TRUE(events_.lines().empty());
}

TEST_F(FailureWithBreaker, TriesTheNextCallWhenATrialHadAWrongArgument) {
  (void)selected_backend();
  (void)selected_backend();
  BreakerClock::advance_ms(4'000);
  error_ = std::make_exception_ptr(fla::InvalidArgument("K", "expected an even number, got 3"));
  EXPECT_THROW((void)selected_backend(), fla::InvalidArgument);
  EXPECT_EQ(counted("shaky").breaker, BreakerState::half_open);
  error_ = nullptr;
  EXPECT_EQ(selected_backend(), "shaky");
  EXPECT_EQ(counted("shaky").breaker, BreakerState::closed);
}

TEST_F(FailureWithBreaker, CountsFailuresThatAreRaisedToo) {
  error_ = std::make_exception_ptr(std::runtime_error("segment too long"));
  EXPECT_THROW((void)selected_backend(), BackendError);
  EXPECT_THROW((void)selected_backend(), BackendError);
  EXPECT_EQ(selected_backend(), "next");
  EXPECT_EQ(events_.lines(),
            std::vector<std::string>{"closed -> open: 2 failures within 1 s, last: segment too long"});
}

TEST_F(FailureWithBreaker, SkipsNoBackendWhereFailuresAreRaised) {
  const fla::ScopedPolicy raise({.on_failure = fla::OnFailure::raise});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend(); }), "out of workspace") << i;
  }
  EXPECT_EQ(standing_of("shaky"), "selected");
}

TEST_F(FailureWithBreaker, SkipsNoRequiredBackend) {
  (void)selected_backend();
  (void)selected_backend();
  const fla::ScopedPolicy require({.require = {{"mix", "shaky"}}});
  EXPECT_EQ(error_text<BackendError>([] { (void)selected_backend(); }), "out of workspace");
}

TEST_F(FailureWithBreaker, IsSkippedByPlans) {
  (void)selected_backend();
  (void)selected_backend();
  EXPECT_EQ(fla::plan("mix", "mix_chunk", MixArgs{}).backend(), "next");
}

/// Fails in one of its functions.
class FailsInChunks final : public fla_test::MixBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "fails_in_chunks", .priority = 0}; }
  MixResult mix_chunk(const MixArgs&) override {
    throw BackendError("no chunk", BackendError::Wrote::nothing);
  }
  MixResult mix_step(const MixArgs&) override { return {"fails_in_chunks"}; }
};

TEST_F(FailureWithBreaker, LeavesTheBackendsOtherFunctionsAlone) {
  const auto failing = fla::register_backend("mix", std::make_unique<FailsInChunks>());
  (void)selected_backend();
  (void)selected_backend();
  EXPECT_EQ(counted("fails_in_chunks").breaker, BreakerState::open);
  EXPECT_EQ(counted("fails_in_chunks", "mix_step").breaker, BreakerState::closed);
  EXPECT_EQ(fla_test::mix_step({}).by, "fails_in_chunks");
}

TEST_F(FailureWithBreaker, StartsAnewWithABackendOfTheSameNameThatComesLater) {
  (void)selected_backend();
  (void)selected_backend();
  { const auto gone = std::move(shaky_); }
  const auto later = add({.name = "shaky", .priority = 1});
  EXPECT_EQ(selected_backend(), "shaky");
  EXPECT_EQ(counted("shaky").breaker, BreakerState::closed);
}

TEST_F(FailureWithBreaker, ObeysTheEnvironment) {
  const ReloadedEnvironment environment{{"FLA_BREAKER_THRESHOLD", "3"},
                                        {"FLA_BREAKER_WINDOW_MS", "50"},
                                        {"FLA_BREAKER_COOL_DOWN_MS", "700"},
                                        {"FLA_ON_FAILURE", "fallback"}};
  std::thread([] {  // where no policy of a scope stands above the environment
    for (int i = 0; i < 3; ++i) (void)selected_backend();
    EXPECT_EQ(standing_of("shaky"),
              "open: 3 failures within 50 ms, last: out of workspace; tried again in 700 ms");
  })
      .join();
}

}  // namespace
