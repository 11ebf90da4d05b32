#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "fla/core/threads.h"
#include "fla/dispatch/failure/breaker.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/child_process.h"

namespace {

using fla_test::outcome_in_child;
using fla_test::outcome_of;
using fla_test::start_child;

bool every_task_runs() {
  std::array<std::atomic<int>, 64> count{};
  fla::parallel_for(64, [&](std::int64_t task, int) { count[static_cast<std::size_t>(task)].fetch_add(1); });
  for (const std::atomic<int>& times : count) {
    if (times.load() != 1) return false;
  }
  return true;
}

bool kda_answers() {
  // One token, one head, state zero: o = scale * (q k) beta v = 1 * 1 * 0.5 * 3.
  const std::array<float, 1> one{1.0f}, v{3.0f}, g{0.0f}, beta{0.5f};
  const fla::KdaResult result = fla::kda({.q = {one.data(), fla::DType::f32, {1, 1, 1, 1}},
                                          .k = {one.data(), fla::DType::f32, {1, 1, 1, 1}},
                                          .v = {v.data(), fla::DType::f32, {1, 1, 1, 1}},
                                          .g = {g.data(), fla::DType::f32, {1, 1, 1, 1}},
                                          .beta = {beta.data(), fla::DType::f32, {1, 1, 1}}});
  return result.o.as<float>()[0] == 1.5f;
}

bool library_works() { return every_task_runs() && kda_answers() && every_task_runs(); }

class Fork : public testing::Test {
 protected:
  void SetUp() override { fla::set_num_threads(3); }
  void TearDown() override { fla::set_num_threads(0); }
};

TEST_F(Fork, ChildOfAProcessThatRanNothingWorks) {
  EXPECT_EQ(outcome_in_child([] { return library_works() ? 0 : 1; }), "exit 0");
}

TEST_F(Fork, ChildWorksAfterTheParentUsedItsThreads) {
  ASSERT_TRUE(library_works());
  EXPECT_EQ(outcome_in_child([] { return library_works() ? 0 : 1; }), "exit 0");
  EXPECT_TRUE(library_works()) << "and so does the parent";
}

TEST_F(Fork, ThreadsThatTheChildStartsWorkToo) {
  ASSERT_TRUE(library_works());
  EXPECT_EQ(outcome_in_child([] {
              std::atomic<int> right{0};
              std::vector<std::thread> threads;
              for (int i = 0; i < 3; ++i)
                threads.emplace_back([&right] { right += library_works() ? 1 : 0; });
              for (std::thread& thread : threads) thread.join();
              return right == 3 && library_works() ? 0 : 1;
            }),
            "exit 0");
}

TEST_F(Fork, GrandchildWorks) {
  ASSERT_TRUE(library_works());
  EXPECT_EQ(outcome_in_child([] {
              if (!library_works()) return 1;
              return outcome_in_child([] { return library_works() ? 0 : 1; }) == "exit 0" ? 0 : 2;
            }),
            "exit 0");
}

TEST_F(Fork, ChildKeepsTheThreadCount) {
  EXPECT_EQ(outcome_in_child([] { return fla::num_threads(); }), "exit 3");
}

TEST_F(Fork, ChildWorksWhileTheParentsThreadsRun) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i) {
    busy.emplace_back([&stop] {
      while (!stop) (void)library_works();
    });
  }
  std::vector<std::string> outcomes;
  for (int i = 0; i < 8; ++i) outcomes.push_back(outcome_in_child([] { return library_works() ? 0 : 1; }));
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(outcomes, std::vector<std::string>(8, "exit 0"));
}

TEST_F(Fork, ChildWorksWithoutTheStacksOfTheParentsThreads) {
  std::atomic<int> ready{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> waiting;
  for (int i = 0; i < 12; ++i) {
    waiting.emplace_back([&] {
      const fla::ScopedPolicy policy({.breaker_threshold = 2});
      (void)library_works();
      ++ready;
      stop.wait(false);
    });
  }
  while (ready < 12) std::this_thread::yield();
  EXPECT_EQ(outcome_in_child([] {
              // The C library unmaps them, with all thread_local objects, as soon as a thread of the child
              // ends.
              std::thread([] {}).join();
              if (!library_works() || fla::counters().empty()) return 1;
              fla::set_policy({.breaker_threshold = 3});
              fla::reset_breakers();
              fla::reload_environment();
              return library_works() ? 0 : 2;
            }),
            "exit 0");
  stop = true;
  stop.notify_all();
  for (std::thread& thread : waiting) thread.join();
}

TEST_F(Fork, FromSeveralThreadsAtOnceWorks) {
  ASSERT_TRUE(library_works());
  std::vector<std::string> outcomes(3);
  std::vector<std::thread> forkers;
  for (std::string& outcome : outcomes) {
    forkers.emplace_back([&outcome] {
      (void)library_works();
      outcome = outcome_in_child([] { return library_works() ? 0 : 1; });
    });
  }
  for (std::thread& forker : forkers) forker.join();
  EXPECT_EQ(outcomes, std::vector<std::string>(3, "exit 0"));
}

}  // namespace
