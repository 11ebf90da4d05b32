#include "fla/dispatch/choice/plan.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/counted.h"
#include "tests/dispatch/mix.h"
#include "tools/cases/random_case.h"

namespace {

using fla_test::add;
using fla_test::counted;
using fla_test::error_text;
using fla_test::MixArgs;

fla::Plan<MixArgs> planned(const MixArgs& args = {}) { return fla::plan("mix", "mix_chunk", args); }

TEST(Plan, ChoosesOnceAndCallsMany) {
  int asked = 0;
  const auto alpha = add({.name = "planned_alpha", .verify = [&asked](const MixArgs&) {
                            ++asked;
                            return fla::accept();
                          }});
  const fla::Plan<MixArgs> plan = planned();
  EXPECT_EQ(plan.backend(), "planned_alpha");
  EXPECT_EQ(asked, 1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(plan({}).by, "planned_alpha");
  EXPECT_EQ(asked, 1);
}

TEST(Plan, GoesToTheOriginalWhenNoBackendAccepts) {
  const auto alpha =
      add({.name = "planned_alpha", .verify = [](const MixArgs&) { return fla::refuse("never"); }});
  const fla::Plan<MixArgs> plan = planned();
  EXPECT_EQ(plan.backend(), "original");
  EXPECT_EQ(plan({}).by, "original");
}

TEST(Plan, IsMadeUnderThePolicyOfItsThread) {
  const auto alpha = add({.name = "planned_alpha"});
  const fla::ScopedPolicy policy({.disable_dispatch = true});
  EXPECT_EQ(planned().backend(), "original");
}

TEST(Plan, IsNotChangedByLaterSettings) {
  const auto alpha = add({.name = "planned_alpha"});
  const fla::Plan<MixArgs> plan = planned();
  const fla::ScopedPolicy policy({.disable_dispatch = true});
  EXPECT_EQ(plan({}).by, "planned_alpha");
}

TEST(Plan, OutlivesTheRegistration) {
  fla::Plan<MixArgs> plan = [] {
    const auto alpha = add({.name = "planned_alpha"});
    return planned();
  }();
  EXPECT_EQ(plan.backend(), "planned_alpha");
  EXPECT_EQ(plan({}).by, "planned_alpha");
}

TEST(Plan, CountsItsCallsAndTheRefusalsOfItsMaking) {
  const auto picky = add({.name = "planned_picky", .priority = 1, .verify = [](const MixArgs&) {
                            return fla::refuse("never");
                          }});
  const auto backend = add({.name = "planned_backend", .priority = 2});
  const auto refusals = fla_test::refusals(counted("planned_picky"));
  const auto taken = counted("planned_backend").taken;
  const fla::Plan<MixArgs> plan = planned();
  EXPECT_EQ(counted("planned_backend").taken, taken) << "planning is not calling";
  for (int i = 0; i < 4; ++i) (void)plan({});
  EXPECT_EQ(counted("planned_backend").taken, taken + 4);
  EXPECT_EQ(fla_test::refusals(counted("planned_picky")), refusals + 1);
}

TEST(Plan, ThrowsAsACallWould) {
  const auto picky = add({.name = "planned_picky", .verify = [](const MixArgs& args) {
                            return fla::refuse("requires K=1, got {}", args.K);
                          }});
  const fla::ScopedPolicy policy({.require = {{"mix", "planned_picky"}}});
  EXPECT_EQ(error_text<fla::BackendError>([] { planned(); }),
            "mix.mix_chunk: backend planned_picky is required and refused: requires K=1, got 128");
}

TEST(Plan, RefusesUnknownNamesAndOtherArguments) {
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { fla::plan("mix", "mix_all", MixArgs{}); }),
            "function: expected one of mix_chunk, mix_step, got 'mix_all'");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { fla::plan("kda", "chunk_kda", MixArgs{}); }),
            "args: expected fla::KdaArgs, the arguments of kda.chunk_kda, got fla_test::MixArgs");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { fla::plan("mix", "mix", MixArgs{}); }),
            "function: expected one of mix_chunk, mix_step, got 'mix'")
      << "mix has no front door";
}

TEST(Plan, OfAnOpsOwnNameGoesThroughItsFrontDoor) {
  for (const std::int64_t tokens : {2, 40}) {
    const fla::cases::KdaCase call = fla::cases::make_kda_case({.T = tokens, .H = 2, .K = 16, .V = 16});
    const std::string function(fla::front_door(call.args));
    const fla::ScopedPolicy policy({.disable_dispatch = true});
    const std::uint64_t before = counted("original", function, "kda").taken;
    const fla::Plan<fla::KdaArgs> plan = fla::plan("kda", "kda", call.args);
    EXPECT_EQ(plan.backend(), fla::explain("kda", "kda", call.args).selected);
    (void)plan(call.args);
    EXPECT_EQ(counted("original", function, "kda").taken, before + 1) << function;
  }
}

TEST(Plan, MayBeCalledFromSeveralThreads) {
  const auto alpha = add({.name = "planned_alpha"});
  const fla::Plan<MixArgs> plan = planned();
  const auto taken = counted("planned_alpha").taken;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([plan] {
      for (int j = 0; j < 100; ++j) (void)plan({});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counted("planned_alpha").taken, taken + 400);
}

TEST(Plan, RaisesAFailureWhateverTheSettings) {
  const auto failing = add({.name = "planned_failing", .run = [](const MixArgs&) -> fla_test::MixResult {
                              throw fla::BackendError("no memory", fla::BackendError::Wrote::nothing);
                            }});
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback});
  const fla::Plan<MixArgs> plan = planned();
  EXPECT_THROW((void)plan({}), fla::BackendError);
}

}  // namespace
