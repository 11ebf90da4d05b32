#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/breaker_clock.h"
#include "tests/dispatch/breaker_events.h"
#include "tests/dispatch/counted.h"
#include "tests/dispatch/mix.h"
#include "tools/cases/random_case.h"

/// Backends that fail now and then, under FLA_ON_FAILURE=fallback: every answer is right, and the breaker
/// does what its settings say, to the call.
namespace {

using fla::BackendError;
using fla::BreakerEvent;
using fla::BreakerState;
using fla_test::add;
using fla_test::BreakerClock;
using fla_test::BreakerEvents;
using fla_test::counted;
using fla_test::MixArgs;
using fla_test::MixResult;
using fla_test::ReloadedEnvironment;
using fla_test::selected_backend;

constexpr int kCalls = 10'000;

[[noreturn]] void fail_cleanly() { throw BackendError("injected", BackendError::Wrote::nothing); }

class FaultInjection : public testing::Test {
 protected:
  BreakerClock clock_;
  ReloadedEnvironment environment_{{"FLA_ON_FAILURE", "fallback"}, {"FLA_LOG_LEVEL", "off"}};
};

// Threshold 5, window 10 s, cool-down 30 s, 100 ms a call: the backend's calls 3, 6, 9, 12 and 15 fail
// within 1.2 s, so its 15th call opens the breaker; the next 299 calls skip it; the 300th, 30 s later, is
// the trial. That is the backend's 16th call, which works, and everything begins again: 314 calls a round, 15
// of them taken.
TEST_F(FaultInjection, OnEveryThirdCallOpensAndClosesTheBreakerToTheCall) {
  constexpr int kRound = 314, kTaken = 15;
  constexpr int kOpenings = (kCalls + kRound - kTaken) / kRound;
  static_assert(kOpenings == 32 && kCalls - (kOpenings - 1) * kRound >= kTaken);
  int backend_calls = 0;
  const auto faulty = add({.name = "faulty_third", .run = [&backend_calls](const MixArgs&) -> MixResult {
                             if (++backend_calls % 3 == 0) fail_cleanly();
                             return {"faulty_third"};
                           }});
  std::vector<std::string> changes, expected;
  int call = 0;
  const auto subscription = fla::on_breaker_change([&](const BreakerEvent& event) {
    changes.push_back(std::to_string(call) + ": " + std::string(name_of(event.from)) + " -> " +
                      std::string(name_of(event.to)));
  });
  for (; call < kCalls; ++call) {
    const int in_round = call % kRound;
    const bool works = in_round < kTaken && (in_round + 1) % 3 != 0;
    ASSERT_EQ(selected_backend(), works ? "faulty_third" : "original") << "call " << call;
    BreakerClock::advance_ms(100);
  }
  for (int round = 0; round < kOpenings; ++round) {
    const std::string first = std::to_string(round * kRound),
                      last = std::to_string(round * kRound + kTaken - 1);
    if (round > 0) {
      expected.push_back(first + ": open -> half_open");
      expected.push_back(first + ": half_open -> closed");
    }
    expected.push_back(last + ": closed -> open");
  }
  EXPECT_EQ(changes, expected);
  const fla::BackendCounters row = counted("faulty_third");
  EXPECT_EQ(row.taken, 480u);
  EXPECT_EQ(row.failed, 160u);
  EXPECT_EQ(row.fell_back, 160u);
  EXPECT_EQ(row.turned_away, 9'520u);
  EXPECT_EQ(row.breaker, BreakerState::open);
}

// Every third call of the public function is to fail at the backend, so the trials fail, too: call 14, the
// 15th, opens the breaker, and every 300th call from there on is a trial whose number leaves the same rest.
TEST_F(FaultInjection, OnEveryTrialKeepsTheBreakerOpen) {
  int call = 0;
  const auto faulty = add({.name = "faulty_trials", .run = [&call](const MixArgs&) -> MixResult {
                             if (call % 3 == 2) fail_cleanly();
                             return {"faulty_trials"};
                           }});
  const BreakerEvents events("faulty_trials");
  for (; call < kCalls; ++call) {
    const bool works = call < 15 && call % 3 != 2;
    ASSERT_EQ(selected_backend(), works ? "faulty_trials" : "original") << "call " << call;
    BreakerClock::advance_ms(100);
  }
  constexpr int kTrials = (kCalls - 15) / 300;
  std::vector<std::string> expected{"closed -> open: 5 failures within 10 s, last: injected"};
  for (int i = 0; i < kTrials; ++i) {
    expected.push_back("open -> half_open: the cool-down is over");
    expected.push_back("half_open -> open: tried again and failed: injected");
  }
  EXPECT_EQ(events.lines(), expected);
  EXPECT_EQ(counted("faulty_trials").failed, 5u + kTrials);
  EXPECT_EQ(counted("faulty_trials").turned_away, static_cast<std::uint64_t>(kCalls - 15 - kTrials));
}

/// A decoding loop that updates its state in place, so that one wrong or half-written step spoils all that
/// follow.
class FaultyKda final : public fla::KdaBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "faulty_kda", .priority = 0}; }
  fla::KdaResult fused_recurrent_kda(const fla::KdaArgs& args) override {
    if (++calls_ % 3 == 0) fail_cleanly();
    return fla::original::fused_recurrent_kda(args);
  }

 private:
  int calls_ = 0;
};

TEST_F(FaultInjection, OnEveryThirdStepOfADecodingLoopChangesNoBitOfIt) {
  const auto faulty = fla::register_backend("kda", std::make_unique<FaultyKda>());
  const fla::ScopedPolicy policy({.order = {{"kda", {"faulty_kda"}}}});
  constexpr int kSteps = 100;
  const fla::cases::KdaCase steps = fla::cases::make_kda_case({.B = kSteps,
                                                               .T = 1,
                                                               .H = 2,
                                                               .K = 16,
                                                               .V = 16,
                                                               .data = fla::cases::DataKind::slow,
                                                               .initial_state = false});
  const fla::Tensor state = fla::Tensor::zeros({1, 2, 16, 16}, fla::DType::f32);
  const fla::Tensor expected_state = fla::Tensor::zeros({1, 2, 16, 16}, fla::DType::f32);
  const auto step = [&](int call, const fla::Tensor& in_place) {
    fla::KdaArgs args = steps.args;
    for (fla::TensorView* tensor : {&args.q, &args.k, &args.v, &args.g, &args.beta}) {
      *tensor = tensor->slice(0, call % kSteps, 1);
    }
    args.initial_state = in_place;
    args.final_state = in_place;
    return args;
  };
  const auto same = [](const fla::Tensor& a, const fla::Tensor& b) {
    return std::memcmp(a.data(), b.data(), 4 * static_cast<std::size_t>(a.numel())) == 0;
  };
  for (int call = 0; call < kCalls; ++call) {
    const fla::KdaResult result = fla::fused_recurrent_kda(step(call, state));
    const fla::KdaResult expected = fla::original::fused_recurrent_kda(step(call, expected_state));
    ASSERT_TRUE(same(result.o, expected.o)) << "call " << call;
    ASSERT_TRUE(same(state, expected_state)) << "call " << call;
    BreakerClock::advance_ms(100);
  }
  const fla::BackendCounters row = counted("faulty_kda", "fused_recurrent_kda", "kda");
  EXPECT_EQ(row.taken, 480u);
  EXPECT_EQ(row.failed, 160u);
  EXPECT_EQ(row.fell_back, 160u);
  EXPECT_EQ(row.turned_away, 9'520u);
}

/// The rules once more, for one thread: what a breaker with these settings must make of calls at these times.
class Model {
 public:
  Model(int threshold, int window_ms, int cool_down_ms)
      : threshold_(threshold), window_(window_ms), cool_down_(cool_down_ms) {}

  /// Whether the call at this time goes to the backend.
  bool admits(std::int64_t at) {
    if (opened_ < 0) return true;
    if (at - opened_ < cool_down_) return false;
    changes.push_back("open -> half_open");
    return true;
  }
  void ended(std::int64_t at, bool well) {
    const bool trial = opened_ >= 0;
    if (trial) {
      opened_ = well ? -1 : at;
      failures_.clear();
      changes.push_back(well ? "half_open -> closed" : "half_open -> open");
    } else if (!well) {
      failures_.push_back(at);
      const auto recent =
          std::ranges::count_if(failures_, [&](std::int64_t time) { return at - time <= window_; });
      if (threshold_ == 0 || recent < threshold_) return;
      opened_ = at;
      failures_.clear();
      changes.push_back("closed -> open");
    }
  }

  std::vector<std::string> changes;

 private:
  std::int64_t threshold_, window_, cool_down_, opened_ = -1;
  std::vector<std::int64_t> failures_;
};

class RandomFaults : public FaultInjection, public testing::WithParamInterface<int> {};

TEST_P(RandomFaults, AreHandledAsTheRulesSay) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const auto pick = [&random](int low, int high) {
    return static_cast<int>(random() % unsigned(high - low + 1)) + low;
  };
  const int threshold = pick(0, 6), window_ms = pick(1, 400), cool_down_ms = pick(0, 300), share = pick(1, 9);
  const std::string name = "faulty_random_" + std::to_string(GetParam());
  bool fails = false;
  const auto faulty = add({.name = name, .run = [&](const MixArgs&) -> MixResult {
                             if (fails) fail_cleanly();
                             return {"faulty"};
                           }});
  const fla::ScopedPolicy policy(
      {.breaker_threshold = threshold, .breaker_window_ms = window_ms, .breaker_cool_down_ms = cool_down_ms});
  std::vector<std::string> changes;
  const auto subscription = fla::on_breaker_change([&](const BreakerEvent& event) {
    changes.push_back(std::string(name_of(event.from)) + " -> " + std::string(name_of(event.to)));
  });
  Model model(threshold, window_ms, cool_down_ms);
  std::uint64_t taken = 0, failed = 0;
  constexpr int kRandomCalls = 1'000;
  for (int call = 0; call < kRandomCalls; ++call) {
    fails = pick(0, 9) < share;
    const bool admitted = model.admits(BreakerClock::now_ms());
    ASSERT_EQ(selected_backend(), admitted && !fails ? "faulty" : "original") << "call " << call;
    if (admitted) {
      model.ended(BreakerClock::now_ms(), !fails);
      ++taken;
      failed += fails ? 1 : 0;
    }
    ASSERT_EQ(changes, model.changes) << "call " << call;
    BreakerClock::advance_ms(pick(0, 50));
  }
  const fla::BackendCounters row = counted(name);
  EXPECT_EQ(row.taken, taken);
  EXPECT_EQ(row.failed, failed);
  EXPECT_EQ(row.fell_back, failed);
  EXPECT_EQ(row.turned_away, kRandomCalls - taken);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFaults, testing::Range(1, 21));

TEST_F(FaultInjection, OnManyThreadsLosesNoCallAndNoCount) {
  constexpr int kThreads = 8, kCallsEach = 2'000;
  std::atomic<std::uint64_t> backend_calls{0}, injected{0}, wrong{0};
  const auto faulty = add({.name = "faulty_threads", .run = [&](const MixArgs&) -> MixResult {
                             if (++backend_calls % 3 == 0) {
                               ++injected;
                               fail_cleanly();
                             }
                             return {"faulty_threads"};
                           }});
  const BreakerEvents events("faulty_threads");
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&wrong] {
      for (int call = 0; call < kCallsEach; ++call) {
        const std::string_view by = selected_backend();
        if (by != "faulty_threads" && by != "original") ++wrong;
        BreakerClock::advance_ms(100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong, 0u);
  const fla::BackendCounters row = counted("faulty_threads");
  EXPECT_EQ(row.taken, backend_calls);
  EXPECT_EQ(row.failed, injected);
  EXPECT_EQ(row.fell_back, injected);
  EXPECT_EQ(row.turned_away, std::uint64_t(kThreads * kCallsEach) - backend_calls);

  std::vector<BreakerEvent> all = events.all();
  std::ranges::sort(all, {}, &BreakerEvent::number);
  BreakerState state = BreakerState::closed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].number, i + 1);
    ASSERT_EQ(all[i].from, state);
    state = all[i].to;
  }
  EXPECT_GT(all.size(), 10u);
  EXPECT_EQ(row.breaker, state);
}

}  // namespace
