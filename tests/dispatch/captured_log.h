#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "fla/core/logging.h"

namespace fla_test {

/// Listens to the logger `fla` for a scope.
class CapturedLog {
 public:
  CapturedLog() {
    (void)fla::log_enabled(spdlog::level::off);  // makes the logger
    logger_ = spdlog::get("fla");
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_);
    sink->set_pattern("%l: %v");
    logger_->sinks().push_back(sink);
  }
  ~CapturedLog() { logger_->sinks().pop_back(); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  /// What was written so far, as "level: line".
  std::vector<std::string> lines() const {
    std::vector<std::string> found;
    std::istringstream text(stream_.str());
    for (std::string line; std::getline(text, line);) found.push_back(line);
    return found;
  }

 private:
  std::ostringstream stream_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace fla_test
