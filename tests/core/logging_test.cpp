#include "fla/core/logging.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"

namespace {

using fla_test::error_text;
using fla_test::ReloadedEnvironment;
using fla_test::ScopedEnvironment;

/// A program that uses spdlog itself, with a default logger, a level and a pattern of its own.
class ProgramWithSpdlog : public testing::Test {
 protected:
  void SetUp() override {
    before_ = spdlog::default_logger();
    mine_ =
        std::make_shared<spdlog::logger>("program", std::make_shared<spdlog::sinks::ostream_sink_st>(lines_));
    mine_->set_pattern("mine: %v");
    mine_->set_level(spdlog::level::debug);
    spdlog::set_default_logger(mine_);
  }
  void TearDown() override { spdlog::set_default_logger(before_); }

  std::ostringstream lines_;
  std::shared_ptr<spdlog::logger> mine_, before_;
};

TEST_F(ProgramWithSpdlog, KeepsItsDefaultLoggerLevelAndPattern) {
  fla::log(spdlog::level::warn, "a line of the library");
  {
    const ReloadedEnvironment environment{{"FLA_LOG_LEVEL", "off"}};
    fla::log(spdlog::level::err, "a line that is off");
  }
  EXPECT_EQ(spdlog::default_logger(), mine_);
  EXPECT_EQ(mine_->level(), spdlog::level::debug);
  EXPECT_EQ(spdlog::get_level(), spdlog::level::debug);
  spdlog::debug("a line of the program");
  EXPECT_EQ(lines_.str(), "mine: a line of the program\n");
}

TEST_F(ProgramWithSpdlog, FindsTheLibrarysLoggerByName) {
  fla::log(spdlog::level::debug, "makes the logger");
  const std::shared_ptr<spdlog::logger> logger = spdlog::get("fla");
  ASSERT_NE(logger, nullptr);
  EXPECT_NE(logger, mine_);
  std::ostringstream lines;
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines);
  sink->set_pattern("%l %v");
  logger->sinks().push_back(sink);
  fla::log(spdlog::level::warn, "with {} braces");
  logger->sinks().pop_back();
  EXPECT_EQ(lines.str(), "warning with {} braces\n");
}

TEST(LogLevel, IsWarnUnlessSet) {
  EXPECT_TRUE(fla::log_enabled(spdlog::level::warn));
  EXPECT_FALSE(fla::log_enabled(spdlog::level::info));
}

TEST(LogLevel, ComesFromTheEnvironment) {
  using enum spdlog::level::level_enum;
  const std::pair<const char*, spdlog::level::level_enum> levels[] = {
      {"trace", trace}, {"debug", debug}, {"info", info}, {"warn", warn}, {"error", err}};
  for (const auto& [name, level] : levels) {
    const ReloadedEnvironment environment{{"FLA_LOG_LEVEL", name}};
    EXPECT_TRUE(fla::log_enabled(level)) << name;
    EXPECT_TRUE(level == trace || !fla::log_enabled(static_cast<spdlog::level::level_enum>(level - 1)))
        << name;
  }
  const ReloadedEnvironment environment{{"FLA_LOG_LEVEL", "off"}};
  EXPECT_FALSE(fla::log_enabled(critical));
}

TEST(LogLevel, GoesBackWithTheVariable) {
  { const ReloadedEnvironment environment{{"FLA_LOG_LEVEL", "trace"}}; }
  EXPECT_FALSE(fla::log_enabled(spdlog::level::info));
}

TEST(LogLevel, OfAnotherNameIsAnErrorAndTheOldOneStays) {
  const ReloadedEnvironment good{{"FLA_LOG_LEVEL", "error"}};
  const ScopedEnvironment bad{{"FLA_LOG_LEVEL", "loud"}};
  EXPECT_EQ(error_text<fla::ConfigError>([] { fla::reload_environment(); }),
            "FLA_LOG_LEVEL: expected one of trace debug info warn error off, got 'loud'");
  EXPECT_TRUE(fla::log_enabled(spdlog::level::err));
  EXPECT_FALSE(fla::log_enabled(spdlog::level::warn));
}

}  // namespace
