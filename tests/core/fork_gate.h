#pragma once

#include <atomic>
#include <thread>

#include "tests/core/sanitized.h"

namespace fla_test {

/// Where threads call while children are forked. A child of a sanitized process hangs when, as it was forked,
/// another thread was in the sanitizer's allocator: there a fork waits until all threads are between two
/// calls. Elsewhere nobody waits.
class ForkGate {
 public:
  /// One call, which no fork interrupts where that would make its child hang.
  template <class Body>
  void pass(Body&& body) {
    enter();
    body();
    inside_.fetch_sub(1);
  }
  /// fork_child() is to fork and to return what fork returned.
  template <class Fork>
  auto fork(Fork&& fork_child) {
    if (kSanitized) close();
    const auto child = fork_child();
    if (kSanitized) open();
    return child;
  }

 private:
  void enter() {
    for (;; inside_.fetch_sub(1)) {
      closed_.wait(true);
      inside_.fetch_add(1);
      if (!closed_) return;
    }
  }
  void close() {
    closed_ = true;
    while (inside_ != 0) std::this_thread::yield();
  }
  void open() {
    closed_ = false;
    closed_.notify_all();
  }

  std::atomic<bool> closed_{false};
  std::atomic<int> inside_{0};
};

}  // namespace fla_test
