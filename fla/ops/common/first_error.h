#pragma once

#include <atomic>
#include <exception>
#include <utility>

namespace fla::common {

/// Carries an exception out of a parallel region, whose bodies must not throw.
class FirstError {
 public:
  /// Runs the body unless another one has failed.
  template <class Body>
  void guard(Body&& body) noexcept {
    if (failed_.load(std::memory_order_relaxed)) return;
    try {
      std::forward<Body>(body)();
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  /// After the region.
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

}  // namespace fla::common
