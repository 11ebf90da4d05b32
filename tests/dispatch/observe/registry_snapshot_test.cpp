#include "fla/dispatch/observe/registry_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "fla/core/errors.h"
#include "fla/dispatch/choice/function_backend.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/dispatch/mix.h"

namespace {

using fla::RegistrySnapshot;
using fla_test::add;
using testing::HasSubstr;
using Json = nlohmann::json;

const RegistrySnapshot::Op& op_of(const RegistrySnapshot& snapshot, std::string_view name) {
  for (const RegistrySnapshot::Op& op : snapshot.ops) {
    if (op.name == name) return op;
  }
  static const RegistrySnapshot::Op none;
  return none;
}

TEST(RegistrySnapshot, ListsOpsFunctionsAndBackends) {
  const auto late =
      add({.name = "snap_late", .priority = 9, .env_var = "FLA_TEST_SNAP", .default_enable = false});
  const auto absent = add(
      {.name = "snap_absent", .priority = 5, .available = [] { return fla::Availability::no("no device"); }});
  const auto early =
      fla::register_backend("mix.mix_step", {.name = "snap_early", .priority = 2, .doc = "fast"},
                            [](const fla_test::MixArgs&) { return fla_test::MixResult{}; });
  const RegistrySnapshot all = fla::registry_snapshot();
  EXPECT_THAT(op_of(all, "common").functions, testing::ElementsAre("l2_norm", "gate", "solve_tril"));
  EXPECT_THAT(op_of(all, "kda").functions,
              testing::ElementsAre("chunk_kda", "fused_recurrent_kda", "chunk_kda_backward", "replay_kda",
                                   "fold_kda", "kda_summary"));
  const RegistrySnapshot::Op& mix = op_of(all, "mix");
  EXPECT_THAT(mix.functions, testing::ElementsAre("mix_chunk", "mix_step"));
  ASSERT_EQ(mix.backends.size(), 3u);
  EXPECT_EQ(mix.backends[0].name, "snap_early");
  EXPECT_EQ(mix.backends[0].state, "enabled");
  EXPECT_EQ(mix.backends[0].reason, "");
  EXPECT_EQ(mix.backends[0].doc, "fast");
  EXPECT_EQ(mix.backends[0].origin, "program");
  EXPECT_THAT(mix.backends[0].functions, testing::ElementsAre("mix_step"));
  EXPECT_EQ(mix.backends[1].name, "snap_absent");
  EXPECT_EQ(mix.backends[1].state, "unavailable");
  EXPECT_EQ(mix.backends[1].reason, "no device");
  EXPECT_EQ(mix.backends[2].name, "snap_late");
  EXPECT_EQ(mix.backends[2].state, "disabled");
  EXPECT_EQ(mix.backends[2].reason, "off unless FLA_TEST_SNAP=1");
  EXPECT_EQ(mix.backends[2].env_var, "FLA_TEST_SNAP");
  EXPECT_FALSE(mix.backends[2].default_enable);
  EXPECT_EQ(mix.original.name, "original");
  EXPECT_EQ(mix.original.state, "enabled");
  EXPECT_EQ(mix.original.functions, mix.functions);
  for (const RegistrySnapshot::Backend& backend : op_of(all, "kda").backends) {
    // Modules of this build are there, too, when an earlier test had them loaded.
    if (!backend.origin.ends_with(".so")) {
      EXPECT_EQ(backend.origin, "linked in") << backend.name;
    }
  }
}

TEST(RegistrySnapshot, SaysThatTheOriginalKernelsAreNoAnswerWhereABackendIsRequired) {
  const auto alpha = add({.name = "snap_alpha"});
  const fla::ScopedPolicy policy({.require = {{"mix", "snap_alpha"}}});
  EXPECT_EQ(op_of(fla::registry_snapshot(), "mix").original.state, "denied");
  EXPECT_EQ(op_of(fla::registry_snapshot(), "mix").original.reason, "snap_alpha is required for mix");
  EXPECT_EQ(op_of(fla::registry_snapshot(), "kda").original.state, "enabled");
}

TEST(RegistrySnapshot, HoldsThePolicyOfTheThread) {
  const auto alpha = add({.name = "snap_alpha"});
  const fla::ScopedPolicy policy({.deny = {{"mix.snap_alpha"}}, .on_failure = fla::OnFailure::fallback});
  const RegistrySnapshot all = fla::registry_snapshot();
  EXPECT_EQ(all.policy.deny, std::vector<std::string>{"mix.snap_alpha"});
  EXPECT_EQ(all.policy.on_failure, fla::OnFailure::fallback);
  EXPECT_EQ(op_of(all, "mix").backends.at(0).state, "denied");
  EXPECT_EQ(op_of(all, "mix").backends.at(0).reason, "named in the deny list");
}

TEST(RegistrySnapshot, GenerationGrowsWithEveryChange) {
  const std::uint64_t before = fla::registry_snapshot().generation;
  EXPECT_EQ(fla::registry_snapshot().generation, before);
  {
    const auto alpha = add({.name = "snap_alpha"});
    EXPECT_GT(fla::registry_snapshot().generation, before);
  }
  EXPECT_GT(fla::registry_snapshot().generation, before + 1);
}

TEST(RegistrySnapshot, ShowsBreakers) {
  const auto failing =
      add({.name = "snap_failing", .run = [](const fla_test::MixArgs&) -> fla_test::MixResult {
             throw fla::BackendError("out of luck", fla::BackendError::Wrote::nothing);
           }});
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback, .breaker_threshold = 2});
  const auto breaker = [] { return op_of(fla::registry_snapshot(), "mix").backends.at(0).breakers.at(0); };
  EXPECT_EQ(breaker().function, "mix_chunk");
  EXPECT_EQ(breaker().state, fla::BreakerState::closed);
  EXPECT_EQ(breaker().failures, 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(fla_test::selected_backend(), "original");
  EXPECT_EQ(breaker().state, fla::BreakerState::open);
  EXPECT_EQ(breaker().failures, 2);
  EXPECT_THAT(breaker().reason, HasSubstr("out of luck"));
  EXPECT_THAT(fla::registry_snapshot().text(), HasSubstr("open"));
}

TEST(RegistrySnapshot, ReadsAsTextAndAsJson) {
  RegistrySnapshot all;
  all.generation = 3;
  all.policy.prefer = {{"mix", {"be", "alpha"}}};
  all.policy.allow = {{"alpha"}};
  all.policy.require = {{"mix", "alpha"}};
  all.policy.on_failure = fla::OnFailure::raise;
  all.config_path = "fla.toml";
  all.config_rules = 2;
  RegistrySnapshot::Backend alpha;
  alpha.name = "alpha", alpha.priority = 5, alpha.origin = "linked in", alpha.state = "enabled";
  alpha.functions = {"mix_chunk"};
  alpha.breakers = {{"mix_chunk", fla::BreakerState::half_open, 1, "1 failure"}};
  RegistrySnapshot::Backend beta;
  beta.name = "be", beta.priority = 10, beta.origin = "program", beta.state = "denied",
  beta.reason = "too old";
  RegistrySnapshot::Backend original;
  original.name = "original", original.origin = "op", original.state = "denied";
  original.functions = {"mix_chunk", "mix_step"}, original.reason = "alpha is required for mix";
  all.ops = {{"mix", {"mix_chunk", "mix_step"}, {alpha, beta}, original}};
  all.plugins = {{.path = "/p/acme.so", .name = "acme", .state = "found", .ops = {"kda"}}};
  EXPECT_EQ(all.text(),
            "generation 3\n"
            "policy "
            "{\"prefer\":{\"mix\":[\"be\",\"alpha\"]},\"allow\":[\"alpha\"],\"require\":{\"mix\":\"alpha\"},"
            "\"on_failure\":\"raise\"}\n"
            "config fla.toml, 2 rules\n"
            "mix: mix_chunk, mix_step\n"
            "  alpha     5   enabled    linked in  mix_chunk\n"
            "                half_open             mix_chunk            1 failure\n"
            "  be        10  denied     program                         too old\n"
            "  original  -   denied     op         mix_chunk, mix_step  alpha is required for mix\n"
            "plugins:\n"
            "  acme  found  /p/acme.so  kda\n");
  const Json json = Json::parse(all.json());
  EXPECT_EQ(json.at("generation"), 3);
  EXPECT_EQ(json.at("policy").at("allow"), Json({"alpha"}));
  EXPECT_EQ(json.at("config"), (Json{{"path", "fla.toml"}, {"rules", 2}}));
  const Json backend = json.at("ops").at(0).at("backends").at(0);
  EXPECT_EQ(backend.at("name"), "alpha");
  EXPECT_EQ(backend.at("state"), "enabled");
  EXPECT_EQ(backend.at("breakers").at(0).at("state"), "half_open");
  EXPECT_EQ(json.at("ops").at(0).at("backends").at(2).at("name"), "original");
  EXPECT_EQ(json.at("ops").at(0).at("backends").at(2).at("state"), "denied");
  EXPECT_EQ(json.at("plugins").at(0).at("state"), "found");
  EXPECT_EQ(Json::parse(RegistrySnapshot{}.json()).at("config"), nullptr);
  EXPECT_EQ(all.json().find('\n'), std::string::npos);
}

TEST(RegistrySnapshot, ReplacesWhatIsNoUtf8) {
  RegistrySnapshot all;
  all.policy.allow = {"caf\xe9"};
  EXPECT_THAT(all.text(), HasSubstr("[\"caf\xef\xbf\xbd\"]"));
  EXPECT_EQ(Json::parse(all.json()).at("policy").at("allow").at(0), "caf\xef\xbf\xbd");
}

TEST(RegistrySnapshot, IsOfOneMoment) {
  std::atomic<bool> stop{false};
  std::thread changes([&stop] {
    while (!stop) {
      const auto backend = add({.name = "snap_passing"});
      fla::set_policy({.deny = {{"mix.snap_passing"}}});
      fla::set_policy({});
    }
  });
  // Denied exactly when the policy of the same snapshot says so, and never named there once it is gone.
  int seen = 0;
  for (int i = 0; i < 2000 || seen == 0; ++i) {
    const RegistrySnapshot all = fla::registry_snapshot();
    const bool denied = all.policy.deny.has_value();
    const auto& backends = op_of(all, "mix").backends;
    EXPECT_TRUE(!denied || backends.size() == 1);
    if (!backends.empty()) {
      EXPECT_EQ(backends[0].state, denied ? "denied" : "enabled");
      ++seen;
    }
  }
  stop = true;
  changes.join();
}

}  // namespace
