#include "fla/core/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"

namespace {

using fla_test::error_text;
using fla_test::ReloadedEnvironment;
using fla_test::ScopedEnvironment;

class Threads : public testing::Test {
 protected:
  void TearDown() override { fla::set_num_threads(0); }
};

/// How often each task ran, and whether every thread index was in range.
struct Tally {
  explicit Tally(std::int64_t tasks) : count(static_cast<std::size_t>(tasks)) {}

  void run(std::int64_t tasks) {
    fla::parallel_for(tasks, [this](std::int64_t task, int thread) {
      count[static_cast<std::size_t>(task)].fetch_add(1, std::memory_order_relaxed);
      if (thread < 0 || thread >= fla::num_threads()) in_range.store(false, std::memory_order_relaxed);
    });
  }
  bool each_ran_once() const {
    for (const std::atomic<int>& times : count) {
      if (times.load() != 1) return false;
    }
    return true;
  }

  std::vector<std::atomic<int>> count;
  std::atomic<bool> in_range{true};
};

TEST_F(Threads, EveryTaskRunsExactlyOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    fla::set_num_threads(threads);
    for (const std::int64_t tasks : {0, 1, 2, 7, 8, 9, 1000}) {
      Tally tally(tasks);
      tally.run(tasks);
      EXPECT_TRUE(tally.each_ran_once()) << tasks << " tasks on " << threads << " threads";
      EXPECT_TRUE(tally.in_range.load()) << tasks << " tasks on " << threads << " threads";
    }
  }
}

TEST_F(Threads, TwoTasksOfOneThreadIndexNeverOverlap) {
  constexpr int kThreads = 4;
  fla::set_num_threads(kThreads);
  std::vector<std::atomic<int>> inside(kThreads);
  std::atomic<bool> alone{true};
  fla::parallel_for(2000, [&](std::int64_t, int thread) {
    if (inside[static_cast<std::size_t>(thread)].fetch_add(1) != 0) alone = false;
    inside[static_cast<std::size_t>(thread)].fetch_sub(1);
  });
  EXPECT_TRUE(alone.load());
}

TEST_F(Threads, OneThreadRunsOnTheCaller) {
  fla::set_num_threads(1);
  std::thread::id runner;
  fla::parallel_for(3, [&](std::int64_t, int) { runner = std::this_thread::get_id(); });
  EXPECT_EQ(runner, std::this_thread::get_id());
}

TEST_F(Threads, TheResultIsVisibleToTheCaller) {
  fla::set_num_threads(4);
  std::vector<int> squares(500);
  fla::parallel_for(500, [&](std::int64_t task, int) {
    squares[static_cast<std::size_t>(task)] = static_cast<int>(task * task);
  });
  for (int i = 0; i < 500; ++i) ASSERT_EQ(squares[static_cast<std::size_t>(i)], i * i);
}

TEST_F(Threads, CountCanBeSetAndGivenBack) {
  const int before = fla::num_threads();
  EXPECT_GE(before, 1);
  fla::set_num_threads(3);
  EXPECT_EQ(fla::num_threads(), 3);
  fla::set_num_threads(0);
  EXPECT_EQ(fla::num_threads(), before);
}

TEST_F(Threads, AreAsManyAsTheWorkIsWorth) {
  fla::set_num_threads(4);
  EXPECT_EQ(fla::threads_worth(0), 1);
  EXPECT_EQ(fla::threads_worth(200'000), 1);
  EXPECT_EQ(fla::threads_worth(250'000), 2);
  EXPECT_EQ(fla::threads_worth(1e18), 4);
}

TEST_F(Threads, CountsOutOfRangeAreRefused) {
  fla::set_num_threads(3);
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { fla::set_num_threads(-2); }),
            "count: expected 0 to 1024 threads, got -2");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { fla::set_num_threads(100000); }),
            "count: expected 0 to 1024 threads, got 100000");
  EXPECT_EQ(fla::num_threads(), 3);
}

TEST_F(Threads, WhatABodyThrowsReachesTheCaller) {
  for (const int threads : {1, 4}) {
    fla::set_num_threads(threads);
    EXPECT_EQ(error_text<std::out_of_range>([] {
                fla::parallel_for(1000, [](std::int64_t task, int) {
                  if (task == 40) throw std::out_of_range("task 40");
                });
              }),
              "task 40");
    EXPECT_THROW(fla::parallel_for(1000, [](std::int64_t, int) { throw std::bad_alloc(); }), std::bad_alloc);
    Tally tally(100);
    tally.run(100);
    EXPECT_TRUE(tally.each_ran_once()) << "the next region is as any other";
  }
}

TEST_F(Threads, TasksBehindAFailureAreLeftOut) {
  fla::set_num_threads(1);
  int ran = 0;
  const auto fail_at_3 = [&](std::int64_t task, int) {
    ++ran;
    if (task == 3) throw std::out_of_range("task 3");
  };
  EXPECT_THROW(fla::parallel_for(1000, fail_at_3), std::out_of_range);
  EXPECT_EQ(ran, 4);
}

TEST_F(Threads, CountComesFromTheEnvironment) {
  const int before = fla::num_threads();
  {
    const ReloadedEnvironment environment{{"FLA_NUM_THREADS", "5"}};
    EXPECT_EQ(fla::num_threads(), 5);
    fla::set_num_threads(2);
    EXPECT_EQ(fla::num_threads(), 2) << "what the program says wins";
    fla::set_num_threads(0);
    EXPECT_EQ(fla::num_threads(), 5);
  }
  EXPECT_EQ(fla::num_threads(), before);
}

TEST_F(Threads, BadCountInTheEnvironmentIsAnErrorAndTheOldOneStays) {
  const ReloadedEnvironment good{{"FLA_NUM_THREADS", "3"}};
  for (const char* bad : {"0", "many", "-1", "1025"}) {
    const ScopedEnvironment environment{{"FLA_NUM_THREADS", bad}};
    EXPECT_EQ(error_text<fla::ConfigError>([] { fla::reload_environment(); }),
              std::string("FLA_NUM_THREADS: expected a whole number from 1 to 1024, got '") + bad + "'");
    EXPECT_EQ(fla::num_threads(), 3);
  }
}

TEST_F(Threads, NestedUseRunsEveryTaskOnce) {
  fla::set_num_threads(3);
  std::vector<std::unique_ptr<Tally>> inner;
  for (int i = 0; i < 6; ++i) inner.push_back(std::make_unique<Tally>(20));
  fla::parallel_for(6, [&](std::int64_t task, int) { inner[static_cast<std::size_t>(task)]->run(20); });
  for (const auto& tally : inner) EXPECT_TRUE(tally->each_ran_once());
}

TEST_F(Threads, SeveralThreadsMayUseItAtOnce) {
  fla::set_num_threads(2);
  std::vector<std::unique_ptr<Tally>> tallies;
  for (int i = 0; i < 4; ++i) tallies.push_back(std::make_unique<Tally>(300));
  std::vector<std::thread> callers;
  for (auto& tally : tallies) callers.emplace_back([&tally] { tally->run(300); });
  for (std::thread& caller : callers) caller.join();
  for (const auto& tally : tallies) EXPECT_TRUE(tally->each_ran_once());
}

}  // namespace
