#include "fla/distributed/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"

namespace {

using fla::distributed::UnderWay;
using fla::distributed::Watch;

struct State {
  std::atomic<bool> begun{false}, done{false}, gone{false};
  std::atomic<int> asked{0};
};

class Exchange final : public UnderWay {
 public:
  explicit Exchange(State& state) : state_(state) {}
  ~Exchange() override { state_.gone = true; }
  bool begun() override {
    ++state_.asked;
    return state_.begun;
  }
  bool done() override { return state_.done; }

 private:
  State& state_;
};

template <class Condition>
void wait_until(Condition&& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// A communicator that does what the test says.
struct Communicator {
  std::atomic<bool> broken{false};
  std::atomic<int> aborts{0};
  std::vector<int> missing;
  Watch watch;

  explicit Communicator(double limit, std::vector<int> missing_ranks = {})
      : missing(std::move(missing_ranks)),
        watch({.rank = 2,
               .begin = {},
               .error = [this] { return std::string(broken ? "NCCL: remote process exited" : ""); },
               .abort = [this] { ++aborts; },
               .missing_ranks = [this] { return missing; }},
              Watch::Duration(limit)) {}

  std::string failure() {
    return fla_test::error_text<fla::BackendError>([&] { watch.check(); });
  }
};

constexpr const char* kNothing = "nothing was thrown";

TEST(Watch, AbortsAnExchangeThatDoesNotEndAndNamesTheRanks) {
  State state;
  state.begun = true;
  Communicator communicator(0.01, {1, 5});
  communicator.watch.add(std::make_unique<Exchange>(state));
  wait_until([&] { return communicator.aborts > 0; });
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(communicator.failure(),
              "fla::distributed on rank 2: ranks 1, 5 did not come to the exchange within 0.010000 s");
  }
  EXPECT_EQ(communicator.aborts, 1);
}

TEST(Watch, SaysWhatItKnowsWithoutRanks) {
  State state;
  state.begun = true;
  Communicator communicator(0.01);
  communicator.watch.add(std::make_unique<Exchange>(state));
  wait_until([&] { return communicator.aborts > 0; });
  EXPECT_EQ(communicator.failure(), "fla::distributed on rank 2: the exchange took more than 0.010000 s");
}

TEST(Watch, TheTimeLimitBeginsWithTheExchange) {
  State state;
  Communicator communicator(0.001, {0});
  communicator.watch.add(std::make_unique<Exchange>(state));
  wait_until([&] { return state.asked > 20; });  // at least a millisecond apart
  EXPECT_EQ(communicator.failure(), kNothing);
  state.begun = true;
  wait_until([&] { return communicator.aborts > 0; });
  EXPECT_EQ(communicator.failure(),
            "fla::distributed on rank 2: rank 0 did not come to the exchange within 0.001000 s");
}

TEST(Watch, ForgetsExchangesThatAreDone) {
  State state;
  Communicator communicator(0.001);
  communicator.watch.add(std::make_unique<Exchange>(state));
  state.done = true;
  wait_until([&] { return state.gone.load(); });
  EXPECT_EQ(communicator.failure(), kNothing);
  EXPECT_EQ(communicator.aborts, 0);
}

TEST(Watch, FindsErrorsOfTheCommunicatorByItself) {
  Communicator communicator(300);
  communicator.broken = true;
  wait_until([&] { return communicator.aborts > 0; });
  EXPECT_EQ(communicator.failure(), "fla::distributed on rank 2: NCCL: remote process exited");
}

TEST(Watch, NamesMissingRanksBesideAnError) {
  Communicator communicator(300, {3});
  communicator.broken = true;
  EXPECT_EQ(communicator.failure(),
            "fla::distributed on rank 2: NCCL: remote process exited; rank 3 did not come");
}

TEST(Watch, AllThreadsAreToldTheSame) {
  Communicator communicator(300, {3});
  communicator.broken = true;
  std::vector<std::string> told(4);
  std::vector<std::thread> threads;
  threads.reserve(told.size());
  for (std::string& text : told) threads.emplace_back([&] { text = communicator.failure(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(told,
              testing::Each("fla::distributed on rank 2: NCCL: remote process exited; rank 3 did not come"));
  wait_until([&] { return communicator.aborts > 0; });
  EXPECT_EQ(communicator.aborts, 1);
}

TEST(Watch, FindsErrorsWhenItIsAsked) {
  Communicator communicator(300);
  communicator.broken = true;
  EXPECT_EQ(communicator.failure(), "fla::distributed on rank 2: NCCL: remote process exited");
}

TEST(Watch, KeepsTheFirstFailure) {
  Communicator communicator(300);
  communicator.watch.fail("NCCL: invalid usage");
  communicator.watch.fail("NCCL: something else");
  communicator.broken = true;
  EXPECT_EQ(communicator.failure(), "fla::distributed on rank 2: NCCL: invalid usage");
  EXPECT_EQ(communicator.aborts, 1);
}

TEST(Watch, EndsWithExchangesUnderWay) {
  State state;
  {
    Communicator communicator(300);
    communicator.watch.add(std::make_unique<Exchange>(state));
  }
  EXPECT_TRUE(state.gone);
}

}  // namespace
