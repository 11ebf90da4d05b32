#include "tools/fla/progress.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <string>

namespace fla::command {

constexpr int kWidth = 30;

Progress::Progress(int steps) : steps_(std::max(steps, 1)), watched_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (watched_) std::cerr << "\r\x1b[K" << std::flush;
}

void Progress::begin(std::string_view what) {
  ++done_;
  if (!watched_) return;
  const int filled = std::min(kWidth, kWidth * done_ / steps_);
  std::cerr << "\r\x1b[K[" << std::string(static_cast<std::size_t>(filled), '#')
            << std::string(static_cast<std::size_t>(kWidth - filled), '.') << "] " << 100 * done_ / steps_
            << " % " << what << std::flush;
}

}  // namespace fla::command
