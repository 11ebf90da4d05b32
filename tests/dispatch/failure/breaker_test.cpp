#include "fla/dispatch/failure/breaker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/core/child_process.h"
#include "tests/dispatch/breaker_clock.h"
#include "tests/dispatch/breaker_events.h"
#include "tests/dispatch/captured_log.h"

namespace {

using fla::BreakerEvent;
using fla::BreakerState;
using fla::dispatch::Breaker;
using fla::dispatch::BreakerSettings;
using fla_test::BreakerClock;
using fla_test::BreakerEvents;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr BreakerSettings kSettings{.threshold = 3, .window_ms = 1'000, .cool_down_ms = 5'000};

class BreakerTest : public testing::Test {
 protected:
  /// Three failures at once.
  void open(Breaker& breaker) {
    for (int i = 0; i < kSettings.threshold; ++i) breaker.failed(kSettings, "no workspace");
    ASSERT_EQ(breaker.state(), BreakerState::open);
  }
  Breaker::Trial open_and_try(Breaker& breaker) {
    open(breaker);
    BreakerClock::advance_ms(kSettings.cool_down_ms);
    return breaker.admits_trial();
  }

  BreakerClock clock_;
  BreakerEvents events_{"subject"};
  Breaker breaker_{"mix", "mix_chunk", "subject"};
};

TEST_F(BreakerTest, IsClosedAtFirst) {
  EXPECT_TRUE(breaker_.closed());
  const Breaker::Status status = breaker_.status();
  EXPECT_EQ(status.state, BreakerState::closed);
  EXPECT_EQ(status.failures, 0);
  EXPECT_EQ(status.reason, "");
}

TEST_F(BreakerTest, OpensAtTheThresholdAndNotBefore) {
  breaker_.failed(kSettings, "first");
  breaker_.failed(kSettings, "second");
  EXPECT_TRUE(breaker_.closed());
  EXPECT_EQ(breaker_.status().failures, 2);
  EXPECT_THAT(events_.lines(), IsEmpty());
  breaker_.failed(kSettings, "third");
  EXPECT_FALSE(breaker_.closed());
  EXPECT_EQ(breaker_.status().failures, 3);
  EXPECT_THAT(events_.lines(), ElementsAre("closed -> open: 3 failures within 1 s, last: third"));
}

TEST_F(BreakerTest, CountsFailuresThatLieExactlyAWindowApart) {
  breaker_.failed(kSettings, "a");
  BreakerClock::advance_ms(500);
  breaker_.failed(kSettings, "b");
  BreakerClock::advance_ms(500);
  breaker_.failed(kSettings, "c");
  EXPECT_EQ(breaker_.state(), BreakerState::open);
}

TEST_F(BreakerTest, ForgetsFailuresThatLieFurtherBack) {
  breaker_.failed(kSettings, "a");
  BreakerClock::advance_ms(500);
  breaker_.failed(kSettings, "b");
  BreakerClock::advance_ns(500'000'001);
  breaker_.failed(kSettings, "c");
  EXPECT_TRUE(breaker_.closed());
  EXPECT_EQ(breaker_.status().failures, 2);
  BreakerClock::advance_ms(499);
  breaker_.failed(kSettings, "d");
  EXPECT_EQ(breaker_.state(), BreakerState::open) << "b, c and d lie within one window";
}

TEST_F(BreakerTest, NeverOpensWhileFailuresComeSlowlyEnough) {
  for (int i = 0; i < 1'000; ++i) {
    breaker_.failed(kSettings, "slow");
    BreakerClock::advance_ms(501);
  }
  EXPECT_TRUE(breaker_.closed());
  EXPECT_EQ(breaker_.status().failures, 2);
}

TEST_F(BreakerTest, TurnsCallsAwayUntilTheCoolDownIsOver) {
  open(breaker_);
  EXPECT_EQ(breaker_.admits_trial(), 0u);
  BreakerClock::advance_ns(5'000 * 1'000'000LL - 1);
  EXPECT_EQ(breaker_.admits_trial(), 0u);
  EXPECT_EQ(breaker_.state(), BreakerState::open);
  BreakerClock::advance_ns(1);
  EXPECT_NE(breaker_.admits_trial(), 0u);
  EXPECT_EQ(breaker_.state(), BreakerState::half_open);
}

TEST_F(BreakerTest, SaysWhetherItWouldAdmitACallAndChangesNothing) {
  EXPECT_TRUE(breaker_.admits());
  open(breaker_);
  EXPECT_FALSE(breaker_.admits());
  BreakerClock::advance_ms(5'000);
  EXPECT_TRUE(breaker_.admits());
  EXPECT_EQ(breaker_.state(), BreakerState::open);
  const Breaker::Trial trial = breaker_.admits_trial();
  EXPECT_FALSE(breaker_.admits());
  breaker_.abandoned(trial);
  EXPECT_TRUE(breaker_.admits());
}

TEST_F(BreakerTest, AdmitsOneTrialAndTurnsTheOthersAwayUntilItEnded) {
  const Breaker::Trial trial = open_and_try(breaker_);
  ASSERT_NE(trial, 0u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(breaker_.admits_trial(), 0u);
    BreakerClock::advance_ms(100'000);  // however long the trial takes
  }
  breaker_.succeeded(trial);
  EXPECT_TRUE(breaker_.closed());
}

TEST_F(BreakerTest, ClosesAfterATrialThatWentWellAndStartsCountingAnew) {
  breaker_.succeeded(open_and_try(breaker_));
  EXPECT_TRUE(breaker_.closed());
  EXPECT_EQ(breaker_.status().failures, 0);
  breaker_.failed(kSettings, "a");
  breaker_.failed(kSettings, "b");
  EXPECT_TRUE(breaker_.closed());
  breaker_.failed(kSettings, "c");
  EXPECT_THAT(events_.lines(), ElementsAre("closed -> open: 3 failures within 1 s, last: no workspace",
                                           "open -> half_open: the cool-down is over",
                                           "half_open -> closed: the trial went well",
                                           "closed -> open: 3 failures within 1 s, last: c"));
}

TEST_F(BreakerTest, OpensForAWholeCoolDownAfterATrialThatFailed) {
  const Breaker::Trial trial = open_and_try(breaker_);
  BreakerClock::advance_ms(1'234);  // the trial takes its time; the cool-down begins at its end
  breaker_.failed(kSettings, "still no workspace", false, trial);
  EXPECT_EQ(breaker_.state(), BreakerState::open);
  EXPECT_EQ(breaker_.status().reason, "tried again and failed: still no workspace; tried again in 5 s");
  BreakerClock::advance_ms(4'999);
  EXPECT_EQ(breaker_.admits_trial(), 0u);
  BreakerClock::advance_ms(1);
  EXPECT_NE(breaker_.admits_trial(), 0u);
  EXPECT_THAT(events_.lines(), ElementsAre("closed -> open: 3 failures within 1 s, last: no workspace",
                                           "open -> half_open: the cool-down is over",
                                           "half_open -> open: tried again and failed: still no workspace",
                                           "open -> half_open: the cool-down is over"));
}

TEST_F(BreakerTest, StaysHalfOpenForTheNextCallAfterATrialWithoutAnAnswer) {
  breaker_.abandoned(open_and_try(breaker_));
  EXPECT_EQ(breaker_.state(), BreakerState::half_open);
  EXPECT_EQ(breaker_.status().reason, "3 failures within 1 s, last: no workspace; the next call tries it");
  const Breaker::Trial next = breaker_.admits_trial();
  ASSERT_NE(next, 0u);
  EXPECT_EQ(breaker_.admits_trial(), 0u);
  EXPECT_EQ(breaker_.status().reason, "3 failures within 1 s, last: no workspace; a call tries it now");
  breaker_.succeeded(next);
  EXPECT_TRUE(breaker_.closed());
  EXPECT_EQ(events_.all().size(), 3u) << "open, half-open, closed: nothing changed in between";
}

TEST_F(BreakerTest, IgnoresLateFailuresOfCallsThatBeganBeforeItOpened) {
  open(breaker_);
  BreakerClock::advance_ms(4'000);
  breaker_.failed(kSettings, "late");
  EXPECT_EQ(breaker_.status().reason, "3 failures within 1 s, last: no workspace; tried again in 1 s");
  BreakerClock::advance_ms(1'000);
  const Breaker::Trial trial = breaker_.admits_trial();
  ASSERT_NE(trial, 0u);
  breaker_.failed(kSettings, "later still");
  EXPECT_EQ(breaker_.state(), BreakerState::half_open) << "it is the trial that counts";
  breaker_.succeeded(trial);
  EXPECT_TRUE(breaker_.closed());
}

TEST_F(BreakerTest, IgnoresTheEndOfATrialThatBeganBeforeAReset) {
  const Breaker::Trial old = open_and_try(breaker_);
  breaker_.reset();
  const Breaker::Trial current = open_and_try(breaker_);
  ASSERT_NE(current, 0u);
  ASSERT_NE(current, old);
  breaker_.succeeded(old);
  EXPECT_EQ(breaker_.state(), BreakerState::half_open);
  breaker_.abandoned(old);
  EXPECT_EQ(breaker_.admits_trial(), 0u) << "the other trial is under way still";
  breaker_.failed(kSettings, "old", false, old);
  EXPECT_EQ(breaker_.state(), BreakerState::half_open);
}

TEST_F(BreakerTest, LetsACallInThatFoundItOpenJustBeforeItClosed) {
  breaker_.succeeded(open_and_try(breaker_));
  const Breaker::Trial late = breaker_.admits_trial();
  EXPECT_NE(late, 0u);
  EXPECT_NE(breaker_.admits_trial(), 0u) << "any number of them";
  breaker_.succeeded(late);
  EXPECT_TRUE(breaker_.closed());
  breaker_.failed(kSettings, "it counts as any other failure", false, late);
  EXPECT_EQ(breaker_.status().failures, 1);
}

TEST_F(BreakerTest, WithThresholdOneOpensAtOnce) {
  breaker_.failed({.threshold = 1, .window_ms = 250, .cool_down_ms = 1'500}, "once is enough");
  EXPECT_EQ(breaker_.status().reason, "1 failure within 250 ms, last: once is enough; tried again in 1.5 s");
}

TEST_F(BreakerTest, WithThresholdZeroNeverOpens) {
  for (int i = 0; i < 1'000; ++i) breaker_.failed({.threshold = 0}, "again");
  EXPECT_TRUE(breaker_.closed());
  EXPECT_THAT(events_.lines(), IsEmpty());
}

TEST_F(BreakerTest, ClosesAfterAFailedTrialWhenTheThresholdWasSetToZeroMeanwhile) {
  const Breaker::Trial trial = open_and_try(breaker_);
  breaker_.failed({.threshold = 0}, "still no workspace", false, trial);
  EXPECT_TRUE(breaker_.closed());
  EXPECT_EQ(events_.lines().back(), "half_open -> closed: the threshold is 0");
}

TEST_F(BreakerTest, WithNoCoolDownTriesTheNextCall) {
  breaker_.failed({.threshold = 1, .window_ms = 1'000, .cool_down_ms = 0}, "x");
  EXPECT_EQ(breaker_.status().reason, "1 failure within 1 s, last: x; the next call tries it");
  EXPECT_NE(breaker_.admits_trial(), 0u);
}

TEST_F(BreakerTest, OpensForGoodWhenTheDeviceIsLostWhateverTheThreshold) {
  breaker_.failed({.threshold = 0}, "CUDA error 719: unspecified launch failure", true);
  EXPECT_EQ(breaker_.status().reason,
            "the device is lost: CUDA error 719: unspecified launch failure; not tried again before "
            "reset_breakers()");
  BreakerClock::advance_ms(365LL * 86'400'000);
  EXPECT_EQ(breaker_.admits_trial(), 0u);
  EXPECT_THAT(events_.lines(),
              ElementsAre("closed -> open: the device is lost: CUDA error 719: unspecified launch failure"));
}

TEST_F(BreakerTest, OpensForGoodWhenTheDeviceIsLostWhileItIsOpenOrOnTrial) {
  open(breaker_);
  breaker_.failed(kSettings, "gone", true);
  BreakerClock::advance_ms(5'000);
  EXPECT_EQ(breaker_.admits_trial(), 0u);
  EXPECT_EQ(events_.all().size(), 1u) << "it was open before";

  breaker_.reset();
  const Breaker::Trial trial = open_and_try(breaker_);
  breaker_.failed(kSettings, "gone", true, trial);
  BreakerClock::advance_ms(5'000);
  EXPECT_EQ(breaker_.admits_trial(), 0u);
}

TEST_F(BreakerTest, StaysOpenWhenATrialGoesWellAfterTheDeviceWasLost) {
  const Breaker::Trial trial = open_and_try(breaker_);
  breaker_.failed(kSettings, "gone", true);
  breaker_.succeeded(trial);
  EXPECT_EQ(breaker_.state(), BreakerState::open);
}

TEST_F(BreakerTest, CountsDownToTheNextTrialInItsReason) {
  open(breaker_);
  EXPECT_EQ(breaker_.status().reason, "3 failures within 1 s, last: no workspace; tried again in 5 s");
  BreakerClock::advance_ns(1);
  EXPECT_EQ(breaker_.status().reason, "3 failures within 1 s, last: no workspace; tried again in 5 s");
  BreakerClock::advance_ms(1'400);
  EXPECT_EQ(breaker_.status().reason, "3 failures within 1 s, last: no workspace; tried again in 3.6 s");
  BreakerClock::advance_ms(3'000);
  EXPECT_EQ(breaker_.status().reason, "3 failures within 1 s, last: no workspace; tried again in 600 ms");
  BreakerClock::advance_ms(600);
  EXPECT_EQ(breaker_.status().reason, "3 failures within 1 s, last: no workspace; the next call tries it");
  EXPECT_EQ(breaker_.status().state, BreakerState::open) << "asking changes nothing";
}

TEST_F(BreakerTest, ResetBreakersClosesAllAndForgetsTheirFailures) {
  const auto failed = fla::dispatch::new_breaker("mix", "mix_chunk", "subject_failed");
  const auto lost = fla::dispatch::new_breaker("mix", "mix_chunk", "subject_lost");
  const auto shaky = fla::dispatch::new_breaker("mix", "mix_chunk", "subject_shaky");
  open(*failed);
  lost->failed(kSettings, "gone", true);
  shaky->failed(kSettings, "a");
  shaky->failed(kSettings, "b");
  fla::reset_breakers();
  for (const auto& breaker : {failed, lost, shaky}) {
    EXPECT_TRUE(breaker->closed()) << breaker->backend();
    EXPECT_EQ(breaker->status().failures, 0) << breaker->backend();
  }
  EXPECT_THAT(events_.lines(), ElementsAre("closed -> open: 3 failures within 1 s, last: no workspace",
                                           "closed -> open: the device is lost: gone",
                                           "open -> closed: reset", "open -> closed: reset"));
}

TEST_F(BreakerTest, IsFoundByItsNamesTheNewestFirst) {
  EXPECT_EQ(fla::dispatch::find_breaker("mix", "mix_chunk", "subject_unheard_of"), nullptr);
  const auto first = fla::dispatch::new_breaker("mix", "mix_chunk", "subject_twice");
  EXPECT_EQ(fla::dispatch::find_breaker("mix", "mix_chunk", "subject_twice"), first);
  auto second = fla::dispatch::new_breaker("mix", "mix_chunk", "subject_twice");
  EXPECT_EQ(fla::dispatch::find_breaker("mix", "mix_chunk", "subject_twice"), second);
  second.reset();
  EXPECT_EQ(fla::dispatch::find_breaker("mix", "mix_chunk", "subject_twice"), nullptr) << "it is gone";
}

TEST_F(BreakerTest, TellsListenersWhoChangedAndNumbersTheChanges) {
  breaker_.succeeded(open_and_try(breaker_));
  const std::vector<BreakerEvent> events = events_.all();
  ASSERT_EQ(events.size(), 3u);
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].op, "mix");
    EXPECT_EQ(events[i].function, "mix_chunk");
    EXPECT_EQ(events[i].backend, "subject");
    EXPECT_EQ(events[i].number, i + 1);
  }
}

TEST_F(BreakerTest, TellsListenersOnTheThreadOfTheChangeWithNoLockHeld) {
  std::thread::id told_on;
  std::string reason;
  const auto subscription = fla::on_breaker_change([&](const BreakerEvent&) {
    told_on = std::this_thread::get_id();
    reason = breaker_.status().reason;  // hangs if the lock is held
    const auto another = fla::on_breaker_change([](const BreakerEvent&) {});
  });
  open(breaker_);
  EXPECT_EQ(told_on, std::this_thread::get_id());
  EXPECT_EQ(reason, "3 failures within 1 s, last: no workspace; tried again in 5 s");
}

TEST_F(BreakerTest, TellsNoListenerWhoseSubscriptionEnded) {
  int told = 0;
  {
    const auto subscription = fla::on_breaker_change([&told](const BreakerEvent&) { ++told; });
    open(breaker_);
  }
  breaker_.reset();
  EXPECT_EQ(told, 1);
}

TEST_F(BreakerTest, OutlivesListenersThatThrowAndLogsThem) {
  const fla_test::CapturedLog log;
  const auto throwing = fla::on_breaker_change([](const BreakerEvent&) { throw std::runtime_error("full"); });
  const auto wild = fla::on_breaker_change([](const BreakerEvent&) { throw 5; });
  int told = 0;
  const auto last = fla::on_breaker_change([&told](const BreakerEvent&) { ++told; });
  open(breaker_);
  EXPECT_EQ(told, 1);
  EXPECT_THAT(
      log.lines(),
      ElementsAre("warning: [FLA Backend] mix.mix_chunk -> subject: breaker open: 3 failures within 1 s, "
                  "last: no workspace",
                  "error: [FLA Backend] a listener of on_breaker_change threw: full",
                  "error: [FLA Backend] a listener of on_breaker_change threw an exception of unknown type"));
}

TEST_F(BreakerTest, AdmitsExactlyOneOfManyThreadsToATrial) {
  constexpr int kThreads = 8, kRounds = 200;
  std::atomic<int> admitted{0};
  Breaker::Trial trial = 0;
  std::vector<int> seen;
  std::barrier ready(kThreads + 1), done(kThreads + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        ready.arrive_and_wait();
        if (const Breaker::Trial given = breaker_.admits_trial(); given != 0) {
          ++admitted;
          trial = given;
        }
        done.arrive_and_wait();
      }
    });
  }
  for (int round = 0; round < kRounds; ++round) {
    breaker_.reset();
    for (int i = 0; i < kSettings.threshold; ++i) breaker_.failed(kSettings, "no workspace");
    BreakerClock::advance_ms(kSettings.cool_down_ms);
    admitted = 0;
    ready.arrive_and_wait();
    done.arrive_and_wait();
    seen.push_back(admitted);
    breaker_.abandoned(trial);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, std::vector<int>(kRounds, 1));
}

TEST_F(BreakerTest, ChangesInOneLineWhateverManyThreadsMeet) {
  constexpr int kThreads = 8, kCalls = 4'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int call = 0; call < kCalls; ++call) {
        BreakerClock::advance_ms(call % 7);
        Breaker::Trial trial = 0;
        if (!breaker_.closed() && (trial = breaker_.admits_trial()) == 0) continue;
        switch ((call + i) % 5) {
          case 0:
          case 1: breaker_.failed(kSettings, "no workspace", false, trial); break;
          case 2: breaker_.abandoned(trial); break;
          default: breaker_.succeeded(trial);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<BreakerEvent> events = events_.all();
  std::ranges::sort(events, {}, &BreakerEvent::number);
  ASSERT_FALSE(events.empty());
  BreakerState state = BreakerState::closed;
  for (std::size_t i = 0; i < events.size(); ++i) {
    ASSERT_EQ(events[i].number, i + 1);
    ASSERT_EQ(events[i].from, state);
    state = events[i].to;
    const bool legal = (events[i].from == BreakerState::closed && state == BreakerState::open) ||
                       (events[i].from == BreakerState::open && state == BreakerState::half_open) ||
                       events[i].from == BreakerState::half_open;
    ASSERT_TRUE(legal) << name_of(events[i].from) << " -> " << name_of(state);
  }
  EXPECT_EQ(breaker_.state(), state);
}

TEST_F(BreakerTest, InAForkedChildDoesNotWaitForATrialOfTheParent) {
  ASSERT_NE(open_and_try(breaker_), 0u);
  EXPECT_EQ(fla_test::outcome_in_child([this] {
              const Breaker::Trial trial = breaker_.admits_trial();
              if (trial == 0) return 1;
              breaker_.succeeded(trial);
              return breaker_.closed() ? 0 : 2;
            }),
            "exit 0");
  EXPECT_EQ(breaker_.admits_trial(), 0u) << "in the parent it runs still";
}

TEST(BreakerClockless, UsesTheSteadyClock) {
  Breaker breaker("mix", "mix_chunk", "steady");
  breaker.failed({.threshold = 1, .window_ms = 1, .cool_down_ms = 86'400'000}, "x");
  EXPECT_EQ(breaker.admits_trial(), 0u);
  EXPECT_EQ(breaker.state(), BreakerState::open);
}

}  // namespace
