#include "fla/core/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/child_process.h"
#include "tests/core/fork_gate.h"
#include "tests/ops/kda/every_way.h"
#include "tools/cases/random_case.h"

namespace {

using fla::cases::KdaCase;
using fla::cases::make_kda_case;
using fla::conformance::disagreement;

KdaCase some_call(std::uint64_t seed) {
  return make_kda_case({.B = 2, .T = 24, .H = 2, .K = 24, .V = 24, .seed = seed});
}

/// Threads that call kda until they are told to stop, each comparing every answer with the reference.
class Callers {
 public:
  explicit Callers(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, i] {
        const KdaCase call = some_call(static_cast<std::uint64_t>(i) + 1);
        const auto reference = fla::cases::reference_of(call.args);
        while (!stop_) {
          for (const auto& [name, run] : fla_test::kEveryWay) {
            gate_.pass([&, run = run] {
              if (!disagreement(run(call.args), reference, call.args).empty()) ++wrong_;
            });
            ++calls_;
          }
        }
      });
    }
    while (calls_ < count) std::this_thread::yield();
  }
  ~Callers() { stop(); }
  /// What became of a child that runs body().
  template <class Body>
  std::string outcome_in_child(Body&& body) {
    return fla_test::outcome_of(gate_.fork([&] { return fla_test::start_child(body); }));
  }
  int stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return wrong_;
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> wrong_{0}, calls_{0};
  fla_test::ForkGate gate_;
  std::vector<std::thread> threads_;
};

TEST(KdaThreads, CallsAreRightWhileAnotherThreadReloadsThePolicy) {
  Callers callers(3);
  for (int i = 0; i < 300; ++i) {
    fla::set_policy({.disable_dispatch = i % 3 == 0});
    fla::reload_environment();
  }
  fla::set_policy({});
  EXPECT_EQ(callers.stop(), 0);
}

TEST(KdaThreads, CallsAreRightWhileTheThreadCountChanges) {
  Callers callers(2);
  for (int i = 0; i < 200; ++i) {
    fla::set_num_threads(1 + i % 4);
    std::this_thread::yield();
  }
  fla::set_num_threads(0);
  EXPECT_EQ(callers.stop(), 0);
}

TEST(KdaThreads, ForkedChildrenAreRightWhileThreadsCall) {
  fla::set_num_threads(2);
  Callers callers(2);
  std::vector<std::string> outcomes;
  const KdaCase call = some_call(99);
  const auto reference = fla::cases::reference_of(call.args);
  for (int i = 0; i < 20; ++i) {
    outcomes.push_back(callers.outcome_in_child([&] {
      for (const auto& [name, run] : fla_test::kEveryWay) {
        if (!disagreement(run(call.args), reference, call.args).empty()) return 1;
      }
      return 0;
    }));
  }
  EXPECT_EQ(callers.stop(), 0);
  fla::set_num_threads(0);
  EXPECT_EQ(outcomes, std::vector<std::string>(20, "exit 0"));
}

TEST(KdaThreads, PlansMayBeSharedAndSharedInputsToo) {
  const KdaCase call = some_call(5);
  const auto reference = fla::cases::reference_of(call.args);
  const fla::Plan<fla::KdaArgs> plan = fla::plan("kda", "chunk_kda", call.args);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 30; ++j)
        wrong += disagreement(plan(call.args), reference, call.args).empty() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
