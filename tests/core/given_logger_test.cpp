#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

#include "fla/core/logging.h"

namespace {

std::ostringstream& lines() {
  static std::ostringstream stream;
  return stream;
}

/// The program has a logger called fla before the library writes its first line.
class GivenLogger : public testing::Environment {
 public:
  void SetUp() override {
    auto logger =
        std::make_shared<spdlog::logger>("fla", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines()));
    logger->set_pattern("given: %v");
    logger->set_level(spdlog::level::info);
    spdlog::register_logger(logger);
  }
};
const testing::Environment* const given = testing::AddGlobalTestEnvironment(new GivenLogger);

TEST(LoggerOfTheProgram, GetsTheLibrarysLines) {
  fla::log(spdlog::level::info, "to the program");
  EXPECT_EQ(lines().str(), "given: to the program\n");
}

TEST(LoggerOfTheProgram, KeepsItsLevel) {
  EXPECT_TRUE(fla::log_enabled(spdlog::level::info));
  EXPECT_FALSE(fla::log_enabled(spdlog::level::debug));
  EXPECT_EQ(spdlog::get("fla")->level(), spdlog::level::info);
}

}  // namespace
