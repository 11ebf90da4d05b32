#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "fla/dispatch/settings/policy.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/captured_log.h"
#include "tests/dispatch/mix.h"

namespace {

using fla_test::add;
using fla_test::CapturedLog;
using fla_test::MixArgs;
using fla_test::ReloadedEnvironment;
using fla_test::selected_backend;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// What was logged once in a process is not logged again, so every test has backends with names of its own.

TEST(Log, SaysOnceWhoTookACall) {
  const ReloadedEnvironment environment{{"FLA_LOG_LEVEL", "info"}};
  const auto alpha = add({.name = "log_backend"});
  const CapturedLog log;
  for (int i = 0; i < 3; ++i) (void)selected_backend();
  std::thread([] { (void)selected_backend(); }).join();
  EXPECT_THAT(log.lines(), ElementsAre("info: [FLA Backend] mix.mix_chunk -> log_backend"));
}

TEST(Log, SaysOnceForEachReasonWhoRefusedACall) {
  const ReloadedEnvironment environment{{"FLA_LOG_LEVEL", "info"}};
  const auto alpha = add({.name = "log_refuser", .priority = 1, .verify = [](const MixArgs& args) {
                            if (args.dtype == fla::DType::f16)
                              return fla::refuse("requires bf16 or f32, got f16");
                            return fla::refuse("requires K=128, got {}", args.K);
                          }});
  const auto beta = add({.name = "log_next", .priority = 2});
  const CapturedLog log;
  for (int i = 0; i < 3; ++i) (void)selected_backend({.K = 64});
  EXPECT_THAT(log.lines(),
              ElementsAre("info: [FLA Backend] mix.mix_chunk -> log_refuser refused: requires K=128, got 64",
                          "info: [FLA Backend] mix.mix_chunk -> log_next"));
  for (int i = 0; i < 3; ++i) (void)selected_backend({.K = 64, .dtype = fla::DType::f16});
  EXPECT_THAT(
      log.lines(),
      Contains("info: [FLA Backend] mix.mix_chunk -> log_refuser refused: requires bf16 or f32, got f16"));
  EXPECT_EQ(log.lines().size(), 3u);
}

TEST(Log, SaysEveryReasonOfAVerifierOfManyBranches) {
  const ReloadedEnvironment environment{{"FLA_LOG_LEVEL", "info"}};
  const auto many = add({.name = "log_many", .verify = [](const MixArgs& args) {
                           switch (args.K) {
                             case 0: return fla::refuse("reason 0");
                             case 1: return fla::refuse("reason 1");
                             case 2: return fla::refuse("reason 2");
                             case 3: return fla::refuse("reason 3");
                             case 4: return fla::refuse("reason 4");
                             case 5: return fla::refuse("reason 5");
                             case 6: return fla::refuse("reason 6");
                             case 7: return fla::refuse("reason 7");
                             case 8: return fla::refuse("reason 8");
                             default: return fla::refuse("reason 9");
                           }
                         }});
  const CapturedLog log;
  for (std::int64_t K = 0; K < 10; ++K) {
    for (int i = 0; i < 2; ++i) (void)selected_backend({.K = K});
  }
  for (int i = 0; i < 10; ++i) {
    const std::string line =
        "info: [FLA Backend] mix.mix_chunk -> log_many refused: reason " + std::to_string(i);
    EXPECT_EQ(std::ranges::count(log.lines(), line), 1) << line;
  }
}

TEST(Log, WarnsOnceAboutAVerifierThatFailed) {
  const auto buggy = add({.name = "log_buggy", .verify = [](const MixArgs&) -> fla::Verdict {
                            throw std::runtime_error("null device");
                          }});
  const CapturedLog log;
  for (int i = 0; i < 3; ++i) (void)selected_backend();
  EXPECT_THAT(log.lines(),
              ElementsAre("warning: [FLA Backend] mix.mix_chunk -> log_buggy: verifier failed: null device"));
}

TEST(Log, IsSilentAboutChoicesUnlessAskedFor) {
  const auto alpha =
      add({.name = "log_silent", .priority = 1, .verify = [](const MixArgs&) { return fla::refuse("no"); }});
  const auto beta = add({.name = "log_silent_backend", .priority = 2});
  const CapturedLog log;
  (void)selected_backend();
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(Log, ImpureVerifierIsReported) {
  const ReloadedEnvironment environment{{"FLA_CHECK_VERIFIERS", "1"}};
  bool yes = false;
  const auto fickle = add({.name = "log_fickle", .verify = [&yes](const MixArgs&) {
                             yes = !yes;
                             return yes ? fla::accept() : fla::refuse("not now");
                           }});
  const CapturedLog log;
  EXPECT_EQ(selected_backend(), "original");
  EXPECT_THAT(log.lines(),
              ElementsAre("warning: [FLA Backend] mix.mix_chunk -> log_fickle: verifier failed: it is not "
                          "pure: asked twice, it gave two answers"));
}

TEST(Log, VerifierThatChangesTheArgumentsIsReported) {
  const ReloadedEnvironment environment{{"FLA_CHECK_VERIFIERS", "1"}};
  const auto writer = add({.name = "log_writer", .verify = [](const MixArgs& args) {
                             const_cast<MixArgs&>(args).K += 1;
                             return fla::accept();
                           }});
  const CapturedLog log;
  MixArgs args;
  EXPECT_EQ(fla_test::mix_chunk(args).by, "original");
  EXPECT_THAT(log.lines(),
              ElementsAre("warning: [FLA Backend] mix.mix_chunk -> log_writer: verifier failed: it is not "
                          "pure: it changed the arguments"));
}

TEST(Log, PureVerifiersPassTheCheck) {
  const ReloadedEnvironment environment{{"FLA_CHECK_VERIFIERS", "1"}};
  const auto pure =
      add({.name = "log_pure", .verify = [](const MixArgs& args) {
             return args.K == 128 ? fla::accept() : fla::refuse("requires K=128, got {}", args.K);
           }});
  const CapturedLog log;
  EXPECT_EQ(selected_backend({.K = 128}), "log_pure");
  EXPECT_EQ(selected_backend({.K = 64}), "original");
  EXPECT_THAT(log.lines(), IsEmpty());
}

}  // namespace
