#include "fla/dispatch/choice/function_backend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/counted.h"
#include "tests/dispatch/explained.h"
#include "tests/dispatch/mix.h"

namespace {

using fla::register_backend;
using fla_test::error_text;
using fla_test::MixArgs;
using fla_test::MixResult;
using fla_test::selected_backend;

constexpr auto kRun = [](const MixArgs&) { return MixResult{"a lambda"}; };

TEST(FunctionBackend, TakesWhatItsVerifierAccepts) {
  const auto lambda = register_backend(
      "mix.mix_chunk", {.name = "lambda"},
      [](const MixArgs& args) {
        return args.K == 64 ? fla::accept() : fla::refuse("requires K=64, got {}", args.K);
      },
      kRun);
  EXPECT_EQ(selected_backend({.K = 64}), "a lambda");
  EXPECT_EQ(selected_backend({.K = 65}), "original");
  EXPECT_EQ(fla_test::standing_of("lambda", {.K = 64}), "selected");
  EXPECT_EQ(fla_test::standing_of("lambda", {.K = 65}), "refused: requires K=64, got 65");
}

TEST(FunctionBackend, TakesEveryCallWithoutAVerifier) {
  using Verify = fla::Verdict (*)(const MixArgs&);
  {
    const auto lambda = register_backend("mix.mix_chunk", {.name = "lambda"}, kRun);
    EXPECT_EQ(selected_backend(), "a lambda");
  }
  {
    const auto lambda = register_backend("mix.mix_chunk", {.name = "lambda"}, nullptr, kRun);
    EXPECT_EQ(selected_backend(), "a lambda");
  }
  {
    const auto lambda = register_backend("mix.mix_chunk", {.name = "lambda"}, Verify{nullptr}, kRun);
    EXPECT_EQ(selected_backend(), "a lambda");
  }
  {
    const std::function<fla::Verdict(const MixArgs&)> none;
    const auto lambda = register_backend("mix.mix_chunk", {.name = "lambda"}, none, kRun);
    EXPECT_EQ(selected_backend(), "a lambda");
  }
}

MixResult plain_function(const MixArgs&) { return {"a function"}; }

TEST(FunctionBackend, MayBeAnythingThatCanBeCalled) {
  {
    const auto function = register_backend("mix.mix_chunk", {.name = "function"}, &plain_function);
    EXPECT_EQ(selected_backend(), "a function");
  }
  {
    const std::function<MixResult(const MixArgs&)> kept = plain_function;
    const auto function = register_backend("mix.mix_chunk", {.name = "function"}, kept);
    EXPECT_EQ(selected_backend(), "a function");
  }
  {
    std::atomic<int> calls{0};
    const auto counting = register_backend("mix.mix_chunk", {.name = "counting"},
                                           [&calls](const MixArgs&) mutable noexcept -> MixResult {
                                             ++calls;
                                             return {"a lambda"};
                                           });
    EXPECT_EQ(selected_backend(), "a lambda");
    EXPECT_EQ(calls.load(), 1);
  }
}

TEST(FunctionBackend, ServesOneFunctionAlone) {
  const auto step = register_backend("mix.mix_step", {.name = "stepper"}, kRun);
  EXPECT_EQ(fla_test::mix_step({}).by, "a lambda");
  EXPECT_EQ(selected_backend(), "original");
  EXPECT_EQ(fla_test::standing_of("stepper"), "not_implemented: has no mix_chunk");
}

TEST(FunctionBackend, KeepsItsTextsItself) {
  std::string name = "short_lived", variable = "FLA_TEST_SHORT_LIVED", doc = "gone soon";
  const auto lambda = register_backend(
      "mix.mix_chunk",
      {.name = name, .package = doc, .env_var = variable, .default_enable = false, .priority = 7, .doc = doc},
      kRun);
  name.assign(name.size(), 'x'), variable.assign(variable.size(), 'x'), doc.assign(doc.size(), 'x');
  for (const fla::OpStatus& op : fla::ops()) {
    if (op.name != "mix") continue;
    ASSERT_EQ(op.backends.size(), 1u);
    EXPECT_EQ(op.backends[0].info.name, "short_lived");
    EXPECT_EQ(op.backends[0].info.package, "gone soon");
    EXPECT_EQ(op.backends[0].info.doc, "gone soon");
    EXPECT_EQ(op.backends[0].info.priority, 7);
    EXPECT_EQ(op.backends[0].origin, "program");
    EXPECT_EQ(op.backends[0].reason, "off unless FLA_TEST_SHORT_LIVED=1");
  }
}

TEST(FunctionBackend, ObeysItsToggleAndThePolicyLikeAnyOther) {
  const fla_test::ScopedEnvironment off({{"FLA_TEST_LAMBDA", "0"}});
  fla::reload_environment();
  const auto lambda =
      register_backend("mix.mix_chunk", {.name = "lambda", .env_var = "FLA_TEST_LAMBDA"}, kRun);
  EXPECT_EQ(fla_test::standing_of("lambda"), "disabled: FLA_TEST_LAMBDA=0");
  const fla::ScopedPolicy on({.enable = {{"lambda", true}}, .require = {{"mix", "lambda"}}});
  EXPECT_EQ(selected_backend(), "a lambda");
}

TEST(FunctionBackend, ThrowsAreReportedLikeAnyOthers) {
  const auto lambda = register_backend("mix.mix_chunk", {.name = "thrower"}, [](const MixArgs&) -> MixResult {
    throw std::runtime_error("out of luck");
  });
  EXPECT_EQ(error_text<fla::BackendError>([] { (void)selected_backend(); }),
            "mix.mix_chunk: backend thrower failed: out of luck");
}

TEST(FunctionBackend, MustBeOfTheFunctionsTypes) {
  struct OtherArgs {
    int K;
  };
  EXPECT_EQ(error_text<fla::ConfigError>([] {
              (void)register_backend("mix.mix_chunk", {.name = "lambda"},
                                     [](const MixArgs&) { return std::string("other"); });
            }),
            "register_backend: lambda's mix_chunk has other types than mix's");
  EXPECT_EQ(error_text<fla::ConfigError>([] {
              (void)register_backend("mix.mix_chunk", {.name = "lambda"},
                                     [](const OtherArgs&) { return MixResult{}; });
            }),
            "register_backend: lambda's mix_chunk takes arguments of 4 bytes, mix's are 16");
  static_assert(!fla::dispatch::TypedCallable<decltype([](const auto&) { return MixResult{}; })>);
  static_assert(!fla::dispatch::TypedCallable<int>);
}

TEST(FunctionBackend, NeedsAFunctionThatExistsAndAFreeName) {
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)register_backend("mix.mix", {.name = "a"}, kRun); }),
            "function: expected one of mix_chunk, mix_step, got 'mix'");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)register_backend("mix", {.name = "a"}, kRun); }),
            "function: expected one of mix_chunk, mix_step, got 'mix'");
  EXPECT_EQ(
      error_text<fla::InvalidArgument>([] { (void)register_backend("max.max", {.name = "a"}, kRun); }),
      "op: expected one of common, delta_rule, dplr_delta_rule, gated_delta_rule, gated_delta_rule_step, "
      "gated_rms_norm, gla, iplr_delta_rule, kda, kda_step, lightning_attn, linear_attn, loading, merge, "
      "mix, retention, short_conv, simple_gla, got 'max'");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] { (void)register_backend("mix.mix_chunk", {}, kRun); }),
            "info: expected a name, got none");
  EXPECT_EQ(error_text<fla::InvalidArgument>([] {
              const std::function<MixResult(const MixArgs&)> none;
              (void)register_backend("mix.mix_chunk", {.name = "a"}, none);
            }),
            "implementation: expected a function, got none");
  const auto first = register_backend("mix.mix_chunk", {.name = "twice"}, kRun);
  EXPECT_EQ(
      error_text<fla::ConfigError>([] { (void)register_backend("mix.mix_step", {.name = "twice"}, kRun); }),
      "register_backend: op mix has a backend 'twice' already");
  EXPECT_EQ(selected_backend(), "a lambda");
}

TEST(FunctionBackend, CallsUnderWayFinishThereWhenItIsTakenOut) {
  std::promise<void> entered, removed;
  auto backend = std::make_unique<fla::RegisteredBackend>(
      register_backend("mix.mix_chunk", {.name = "leaving"}, [&](const MixArgs&) {
        entered.set_value();
        removed.get_future().wait();
        return MixResult{"the one that left"};
      }));
  std::future<std::string_view> call = std::async(std::launch::async, [] { return selected_backend(); });
  entered.get_future().wait();
  backend.reset();
  EXPECT_EQ(selected_backend(), "original");
  removed.set_value();
  EXPECT_EQ(call.get(), "the one that left");
}

TEST(FunctionBackend, PlansOutliveIt) {
  auto backend =
      std::make_unique<fla::RegisteredBackend>(register_backend("mix.mix_chunk", {.name = "planned"}, kRun));
  const fla::Plan<MixArgs> plan = fla::plan("mix", "mix_chunk", MixArgs{});
  backend.reset();
  EXPECT_EQ(plan(MixArgs{}).by, "a lambda");
  EXPECT_EQ(selected_backend(), "original");
}

TEST(FunctionBackend, NoCallIsLostWhileItComesAndGoes) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, by_lambda{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        const std::string_view by = selected_backend();
        if (by == "a lambda") ++by_lambda;
        if (by != "a lambda" && by != "original") ++wrong;
      }
    });
  }
  for (int i = 0; i < 100 || by_lambda == 0; ++i) {
    const auto passing = register_backend("mix.mix_chunk", {.name = "passing_lambda"}, kRun);
    if (selected_backend() != "a lambda") ++wrong;
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(selected_backend(), "original");
}

}  // namespace
