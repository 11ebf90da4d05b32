#include "fla/dispatch/choice/accepting_backends.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/mix.h"

namespace {

using fla_test::add;
using fla_test::MixArgs;

/// "backend.function", in ascending priority.
std::vector<std::string> accepting_by_name(const MixArgs& args = {}) {
  std::vector<std::string> names;
  for (const fla::dispatch::AcceptingBackend& accepting : fla::dispatch::accepting_backends("mix", args))
    names.push_back(std::string(accepting.backend->info().name) + "." + std::string(accepting.function));
  return names;
}

TEST(AcceptingBackends, AreThoseWhoseVerifierAccepts) {
  const auto narrow = add({.name = "accepting_narrow", .priority = 1, .verify = [](const MixArgs& args) {
                             return args.K == 64 ? fla::accept() : fla::refuse("requires K=64");
                           }});
  const auto wide = add({.name = "accepting_wide", .priority = 2});
  EXPECT_EQ(accepting_by_name({.K = 64}),
            (std::vector<std::string>{"accepting_narrow.mix_chunk", "accepting_wide.mix_chunk"}));
  EXPECT_EQ(accepting_by_name({.K = 128}), std::vector<std::string>{"accepting_wide.mix_chunk"});
}

TEST(AcceptingBackends, DoNotDependOnSettings) {
  const auto off = add({.name = "accepting_off", .env_var = "FLA_ACCEPTING_OFF", .default_enable = false});
  const fla::ScopedPolicy policy({.disable_dispatch = true});
  EXPECT_EQ(accepting_by_name(), std::vector<std::string>{"accepting_off.mix_chunk"});
}

TEST(AcceptingBackends, AreAvailable) {
  const auto gone =
      add({.name = "accepting_gone", .available = [] { return fla::Availability::no("no such device"); }});
  EXPECT_EQ(accepting_by_name(), std::vector<std::string>{});
}

TEST(AcceptingBackends, AreOfAnOpThatExists) {
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([] {
              (void)fla::dispatch::accepting_backends("mixx", MixArgs{});
            }).substr(0, 22),
            "op: expected one of co");
}

}  // namespace
