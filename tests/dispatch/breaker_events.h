#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fla/dispatch/failure/breaker.h"

namespace fla_test {

/// What breakers told in a scope, of the backends whose name begins with `prefix`.
class BreakerEvents {
 public:
  explicit BreakerEvents(std::string prefix = "")
      : subscription_(
            fla::on_breaker_change([this, prefix = std::move(prefix)](const fla::BreakerEvent& event) {
              const std::lock_guard lock(mutex_);
              if (event.backend.starts_with(prefix)) events_.push_back(event);
            })) {}

  std::vector<fla::BreakerEvent> all() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  /// As "closed -> open: 5 failures within 10 s, last: …".
  std::vector<std::string> lines() const {
    std::vector<std::string> made;
    for (const fla::BreakerEvent& event : all()) {
      made.push_back(std::string(name_of(event.from)) + " -> " + std::string(name_of(event.to)) + ": " +
                     event.reason);
    }
    return made;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<fla::BreakerEvent> events_;
  fla::Subscription subscription_;  // last: it ends before what it writes to
};

}  // namespace fla_test
