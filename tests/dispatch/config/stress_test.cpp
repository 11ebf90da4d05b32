#include "tests/dispatch/config/stress.h"

#include <gtest/gtest.h>

#include "tests/dispatch/captured_log.h"

namespace {

TEST(ConfigStress, EveryCallRunsUnderExactlyOneFileWhileItIsRewritten) {
  const auto logger = [] {
    (void)fla::log_enabled(spdlog::level::off);
    return spdlog::get("fla");
  }();
  const auto level = logger->level();
  logger->set_level(spdlog::level::off);  // a third of the files are refused, which would be told
  const fla_test::StressResult result = fla_test::run_stress({.threads = 8, .rewrites = 1000});
  logger->set_level(level);
  EXPECT_EQ(result.torn, 0u) << "of " << result.calls;
  EXPECT_GT(result.calls, 0u);
  EXPECT_EQ(result.refused, 333u);
  EXPECT_EQ(result.accepted, 667u);
}

}  // namespace
