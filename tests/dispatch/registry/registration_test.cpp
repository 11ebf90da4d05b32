#include "fla/dispatch/catalog/registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/ops.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/child_process.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/dispatch/counted.h"
#include "tests/dispatch/mix.h"

namespace {

using fla_test::add;
using fla_test::selected_backend;

fla::OpStatus status_of(std::string_view op) {
  for (fla::OpStatus& status : fla::ops()) {
    if (status.name == op) return status;
  }
  return {};
}

TEST(Ops, AreListedInAlphabeticalOrderWithTheirFunctions) {
  std::vector<std::string> names;
  for (const fla::OpStatus& op : fla::ops()) names.push_back(op.name);
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_THAT(names, testing::IsSupersetOf({"kda", "mix"}));
  EXPECT_THAT(status_of("mix").functions, testing::ElementsAre("mix_chunk", "mix_step"));
  EXPECT_THAT(status_of("kda").functions,
              testing::ElementsAre("chunk_kda", "fused_recurrent_kda", "chunk_kda_backward", "replay_kda",
                                   "fold_kda", "kda_summary"));
}

TEST(Ops, HaveTheirArguments) {
  EXPECT_NE(fla::find_argument(status_of("kda").arguments, "use_qk_l2norm_in_kernel"), nullptr);
  EXPECT_TRUE(status_of("mix").arguments.empty());
}

TEST(Ops, ListBackendsInAscendingPriorityWithWhatTheyAre) {
  const auto late =
      add({.name = "listed_late", .priority = 9, .env_var = "FLA_TEST_LATE", .default_enable = false});
  const auto early = add({.name = "listed_early", .priority = 2});
  const auto absent = add({.name = "listed_absent", .priority = 5, .available = [] {
                             return fla::Availability::no("no device");
                           }});
  const auto backends = status_of("mix").backends;
  ASSERT_EQ(backends.size(), 3u);
  EXPECT_EQ(backends[0].info.name, "listed_early");
  EXPECT_TRUE(backends[0].enabled && backends[0].available);
  EXPECT_THAT(backends[0].functions, testing::ElementsAre("mix_chunk"));
  EXPECT_EQ(backends[1].info.name, "listed_absent");
  EXPECT_FALSE(backends[1].available);
  EXPECT_EQ(backends[1].reason, "no device");
  EXPECT_EQ(backends[2].info.name, "listed_late");
  EXPECT_EQ(backends[2].info.env_var, "FLA_TEST_LATE");
  EXPECT_FALSE(backends[2].enabled);
  EXPECT_EQ(backends[2].reason, "off unless FLA_TEST_LATE=1");
}

TEST(Ops, ShowThePolicyInForce) {
  const auto alpha = add({.name = "listed_alpha"});
  const fla::ScopedPolicy policy({.deny = {{"mix.listed_alpha"}}});
  EXPECT_FALSE(status_of("mix").backends.at(0).enabled);
  EXPECT_EQ(status_of("mix").backends.at(0).reason, "named in the deny list");
}

TEST(Registration, OfABackendNamedOriginalIsRefused) {
  EXPECT_EQ(fla_test::error_text<fla::ConfigError>([] { (void)add({.name = "original"}); }),
            "register_backend: a backend of op mix is named 'original', which is what the op's own kernel is "
            "called: choose another name");
}

TEST(Registration, AvailabilityMayBeFoundOutByCallsAndForks) {
  std::string by, in_thread, child;
  const auto curious =
      add({.name = "curious", .available = [&] {
             by = selected_backend();
             std::thread([&] { in_thread = selected_backend(); }).join();
             child = fla_test::outcome_in_child([] { return selected_backend() == "original" ? 0 : 1; });
             const auto inner = add({.name = "inner"});
             return fla::Availability::yes();
           }});
  EXPECT_EQ(by, "original");
  EXPECT_EQ(in_thread, "original");
  EXPECT_EQ(child, "exit 0");
  EXPECT_EQ(selected_backend(), "curious");
}

TEST(Registration, CallsAreRightWhileBackendsComeAndGo) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        const std::string_view by = selected_backend();
        if (by != "original" && by != "passing") ++wrong;
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    const auto passing = add({.name = "passing"});
    if (selected_backend() != "passing") ++wrong;
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Registration, CallsAreRightWhileSettingsChange) {
  const auto first = add({.name = "first", .priority = 1, .env_var = "FLA_TEST_FIRST"});
  const auto second = add({.name = "second", .priority = 2});
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        const std::string_view by = selected_backend();
        if (by != "first" && by != "second") ++wrong;
        const fla::ScopedPolicy scoped({.deny = {{"first"}}});
        if (selected_backend() != "second") ++wrong;
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    fla::set_policy({.enable = {{"first", i % 2 == 0}}});
    fla::reload_environment();
  }
  fla::set_policy({});
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Registration, ChildStartsWithTheParentsSettings) {
  const auto first = add({.name = "first", .priority = 1});
  const auto second = add({.name = "second", .priority = 2});
  fla::set_policy({.enable = {{"first", false}}});
  const fla::ScopedPolicy scoped({.on_failure = fla::OnFailure::fallback});
  const std::string outcome = fla_test::outcome_in_child([] {
    if (selected_backend() != "second") return 1;
    fla::set_policy({});
    if (selected_backend() != "first") return 2;
    const fla::ScopedPolicy own({.disable_dispatch = true});
    return selected_backend() == "original" ? 0 : 3;
  });
  EXPECT_EQ(outcome, "exit 0");
  EXPECT_EQ(selected_backend(), "second") << "the child's settings are its own";
  fla::set_policy({});
}

TEST(Registration, ChildWorksWhileTheParentsThreadsDispatchAndRegister) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  busy.emplace_back([&stop] {
    for (int i = 0; !stop; i = (i + 1) % 50) {
      const auto passing = add(
          {.name = "passing_" + std::to_string(i), .verify = [](const fla_test::MixArgs&) -> fla::Verdict {
             throw std::runtime_error("on purpose");
           }});
      (void)selected_backend();
    }
  });
  busy.emplace_back([&stop] {
    while (!stop) (void)fla_test::mix_step({});
  });
  std::vector<std::string> outcomes;
  for (int i = 0; i < 20; ++i) {
    outcomes.push_back(fla_test::outcome_in_child([] {
      const auto own = add({.name = "own", .priority = -1});
      std::vector<std::thread> threads;
      threads.reserve(3);
      for (int j = 0; j < 3; ++j) threads.emplace_back([] { (void)selected_backend(); });
      for (std::thread& thread : threads) thread.join();
      const bool counted = fla_test::counted("own").taken == 3;
      return counted && selected_backend() == "own" ? 0 : 1;
    }));
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(outcomes, std::vector<std::string>(20, "exit 0"));
}

TEST(Generation, GrowsWithBackendsAndSettings) {
  const std::uint64_t first = fla::dispatch::generation();
  const auto backend = add({.name = "generation_new"});
  const std::uint64_t second = fla::dispatch::generation();
  EXPECT_GT(second, first);
  fla::set_policy({});
  EXPECT_GT(fla::dispatch::generation(), second);
}

}  // namespace
