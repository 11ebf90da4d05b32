#include "fla/dispatch/takers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/policy.h"
#include "tests/core/error_text.h"
#include "tests/dispatch/mix.h"

namespace {

using fla_test::add;
using fla_test::MixArgs;

/// "backend.function", in ascending priority.
std::vector<std::string> takers_by_name(const MixArgs& args = {}) {
  std::vector<std::string> names;
  for (const fla::dispatch::Taker& taker : fla::dispatch::takers_of("mix", args))
    names.push_back(std::string(taker.backend->info().name) + "." + std::string(taker.function));
  return names;
}

TEST(Takers, AreThoseThatAccept) {
  const auto narrow = add({.name = "taker_narrow", .priority = 1, .verify = [](const MixArgs& args) {
                             return args.K == 64 ? fla::accept() : fla::refuse("requires K=64");
                           }});
  const auto wide = add({.name = "taker_wide", .priority = 2});
  EXPECT_EQ(takers_by_name({.K = 64}),
            (std::vector<std::string>{"taker_narrow.mix_chunk", "taker_wide.mix_chunk"}));
  EXPECT_EQ(takers_by_name({.K = 128}), std::vector<std::string>{"taker_wide.mix_chunk"});
}

TEST(Takers, DoNotDependOnSettings) {
  const auto off = add({.name = "taker_off", .env_var = "FLA_TAKER_OFF", .default_enable = false});
  const fla::ScopedPolicy policy({.disable_dispatch = true});
  EXPECT_EQ(takers_by_name(), std::vector<std::string>{"taker_off.mix_chunk"});
}

TEST(Takers, AreAvailable) {
  const auto gone =
      add({.name = "taker_gone", .available = [] { return fla::Availability::no("no such device"); }});
  EXPECT_EQ(takers_by_name(), std::vector<std::string>{});
}

TEST(Takers, AreOfAnOpThatExists) {
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([] {
              (void)fla::dispatch::takers_of("mixx", MixArgs{});
            }).substr(0, 22),
            "op: expected one of co");
}

}  // namespace
