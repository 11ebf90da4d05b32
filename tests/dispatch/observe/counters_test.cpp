#include "fla/dispatch/observe/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/dispatch/counted.h"
#include "tests/dispatch/mix.h"

namespace {

using fla_test::add;
using fla_test::counted;
using fla_test::MixArgs;
using fla_test::refusals;
using fla_test::selected_backend;

/// How often each wording was counted.
std::map<std::string, std::uint64_t> by_reason(const fla::BackendCounters& row) {
  std::map<std::string, std::uint64_t> found;
  for (const auto& refusal : row.refused) found[refusal.reason] += refusal.count;
  return found;
}

TEST(Counters, CountWhatABackendTook) {
  const auto alpha = add({.name = "counted_alpha"});
  const auto before = counted("counted_alpha").taken;
  for (int i = 0; i < 7; ++i) (void)selected_backend();
  EXPECT_EQ(counted("counted_alpha").taken, before + 7);
}

TEST(Counters, CountTheOriginalKernelUnderItsName) {
  const auto before = counted("original").taken;
  const auto step = counted("original", "mix_step").taken;
  for (int i = 0; i < 3; ++i) (void)selected_backend();
  (void)fla_test::mix_step({});
  EXPECT_EQ(counted("original").taken, before + 3);
  EXPECT_EQ(counted("original", "mix_step").taken, step + 1);
}

TEST(Counters, CountWithDispatchDisabledToo) {
  const fla::ScopedPolicy policy({.disable_dispatch = true});
  const auto before = counted("original").taken;
  (void)selected_backend();
  EXPECT_EQ(counted("original").taken, before + 1);
}

TEST(Counters, CountRefusalsByReasonNotByValue) {
  const auto beta = add({.name = "counted_beta", .verify = [](const MixArgs& args) {
                           if (args.dtype != fla::DType::f32)
                             return fla::refuse("requires f32, got {}", args.dtype);
                           if (args.K != 128) return fla::refuse("requires K=128, got {}", args.K);
                           return fla::accept();
                         }});
  for (const std::int64_t K : {64, 32, 64}) (void)selected_backend({.K = K});
  (void)selected_backend({.dtype = fla::DType::bf16});
  (void)selected_backend({});
  const auto row = counted("counted_beta");
  EXPECT_THAT(by_reason(row), testing::UnorderedElementsAre(testing::Pair("requires K=128, got {}", 3),
                                                            testing::Pair("requires f32, got {}", 1)));
  EXPECT_EQ(row.taken, 1u);
  for (const auto& refusal : row.refused) {
    EXPECT_THAT(refusal.place, testing::HasSubstr("counters_test.cpp:")) << refusal.reason;
  }
}

TEST(Counters, CountVerifiersThatFailedApart) {
  const auto buggy = add({.name = "counted_buggy", .verify = [](const MixArgs& args) -> fla::Verdict {
                            if (args.K == 1) throw std::runtime_error("oops");
                            return fla::refuse("no");
                          }});
  for (int i = 0; i < 2; ++i) (void)selected_backend({.K = 1});
  (void)selected_backend({.K = 2});
  EXPECT_THAT(by_reason(counted("counted_buggy")),
              testing::UnorderedElementsAre(testing::Pair("verifier failed: {}", 2), testing::Pair("no", 1)));
}

TEST(Counters, NameNoPlaceForVerifiersThatFailed) {
  const auto buggy = add({.name = "counted_placeless", .verify = [](const MixArgs&) -> fla::Verdict {
                            throw std::runtime_error("oops");
                          }});
  (void)selected_backend();
  EXPECT_EQ(counted("counted_placeless").refused.at(0).place, "");
}

TEST(Counters, TakeOneWordingOfOnePlaceForOneReasonWhereverItWasCompiled) {
  static const char here[] = "requires f32", there[] = "requires f32";
  const auto twins = add({.name = "counted_twins", .verify = [](const MixArgs& args) {
                            return fla::refuse(fla::ReasonText(args.K == 1 ? here : there, "twins.h", 7));
                          }});
  for (const std::int64_t K : {1, 2, 2}) (void)selected_backend({.K = K});
  const auto row = counted("counted_twins");
  ASSERT_EQ(row.refused.size(), 1u);
  EXPECT_EQ(row.refused[0].reason, "requires f32");
  EXPECT_EQ(row.refused[0].place, "twins.h:7");
  EXPECT_EQ(row.refused[0].count, 3u);
}

/// "function backend" of every row of op mix.
std::vector<std::string> rows_of_mix() {
  std::vector<std::string> found;
  for (const fla::BackendCounters& row : fla::counters()) {
    if (row.op == "mix") found.push_back(row.function + " " + row.backend);
  }
  return found;
}

TEST(Counters, ListTheOriginalKernelOfEveryFunctionBeforeItsFirstCall) {
  EXPECT_THAT(rows_of_mix(), testing::IsSupersetOf({"mix_chunk original", "mix_step original"}));
}

TEST(Counters, DoNotListFunctionsThatABackendLacks) {
  const auto chunks = add({.name = "counted_chunks"});
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});  // asks about breakers as well
  (void)selected_backend();
  (void)fla_test::mix_step({});
  (void)fla::explain("mix", "mix_step", MixArgs{});
  EXPECT_THAT(rows_of_mix(), testing::Contains("mix_chunk counted_chunks"));
  EXPECT_THAT(rows_of_mix(), testing::Not(testing::Contains("mix_step counted_chunks")));
}

TEST(Counters, CountCallsThatTheOriginalKernelTookAfterAFailureAndOfAPlan) {
  const auto before = counted("original").taken;
  {
    const auto failing =
        add({.name = "counted_for_the_original", .run = [](const MixArgs&) -> fla_test::MixResult {
               throw fla::BackendError("out of workspace", fla::BackendError::Wrote::nothing);
             }});
    const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
    EXPECT_EQ(selected_backend(), "original");
  }
  EXPECT_EQ(counted("original").taken, before + 1);
  (void)fla::plan("mix", "mix_chunk", MixArgs{})({});
  EXPECT_EQ(counted("original").taken, before + 2);
}

TEST(Counters, AreOrderedByOpAndFunctionTheOriginalLast) {
  const auto late = add({.name = "counted_late"});
  (void)selected_backend();
  (void)fla_test::mix_step({});
  std::vector<std::string> seen;
  for (const fla::BackendCounters& row : fla::counters()) {
    const std::string name = row.op + "." + row.function;
    if (seen.empty() || seen.back() != name) seen.push_back(name);
  }
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(std::ranges::count(seen, "mix.mix_chunk"), 1);
  std::vector<std::string> backends;
  for (const fla::BackendCounters& row : fla::counters()) {
    if (row.op == "mix" && row.function == "mix_chunk") backends.push_back(row.backend);
  }
  EXPECT_EQ(backends.back(), "original");
  EXPECT_THAT(backends, testing::Contains("counted_late"));
}

TEST(Counters, AVerifierOfManyBranchesIsCountedWhole) {
  const auto many = add({.name = "counted_many", .verify = [](const MixArgs& args) {
                           switch (args.K) {
                             case 0: return fla::refuse("branch 0");
                             case 1: return fla::refuse("branch 1");
                             case 2: return fla::refuse("branch 2");
                             case 3: return fla::refuse("branch 3");
                             case 4: return fla::refuse("branch 4");
                             case 5: return fla::refuse("branch 5");
                             case 6: return fla::refuse("branch 6");
                             case 7: return fla::refuse("branch 7");
                             case 8: return fla::refuse("branch 8");
                             case 9: return fla::refuse("branch 9");
                             case 10: return fla::refuse("branch 10");
                             default: return fla::refuse("branch 11");
                           }
                         }});
  for (std::int64_t K = 0; K < 12; ++K) {
    for (int i = 0; i < 3; ++i) (void)selected_backend({.K = K});
  }
  EXPECT_EQ(refusals(counted("counted_many")), 36u);
}

TEST(Counters, SumOverThreadsThatRunAndThatEnded) {
  const auto alpha = add({.name = "counted_threads"});
  const auto before = counted("counted_threads").taken;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 250; ++j) (void)selected_backend();
    });
  }
  for (std::thread& thread : threads) thread.join();
  (void)selected_backend();
  EXPECT_EQ(counted("counted_threads").taken, before + 1001);
}

TEST(Counters, LoseNothingWhileBackendsComeAndGo) {
  const auto alpha = add({.name = "counted_first", .priority = 1});
  const auto before = counted("counted_first").taken;
  for (int i = 0; i < 40; ++i) {
    (void)selected_backend();
    const auto other = add({.name = "counted_passing_" + std::to_string(i), .priority = 0});
    (void)selected_backend();
    EXPECT_EQ(counted("counted_passing_" + std::to_string(i)).taken, 1u);
  }
  EXPECT_EQ(counted("counted_first").taken, before + 40);
}

TEST(Counters, CountFailuresAndFallbacks) {
  const auto failing =
      add({.name = "counted_failing", .priority = 1, .run = [](const MixArgs&) -> fla_test::MixResult {
             throw fla::BackendError("out of workspace", fla::BackendError::Wrote::nothing);
           }});
  {
    const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
    EXPECT_EQ(selected_backend(), "original");
  }
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::raise});
  EXPECT_THROW((void)selected_backend(), fla::BackendError);
  const auto row = counted("counted_failing");
  EXPECT_EQ(row.failed, 2u);
  EXPECT_EQ(row.fell_back, 1u);
}

}  // namespace
