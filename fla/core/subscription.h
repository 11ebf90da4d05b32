#pragma once

#include <functional>
#include <utility>

namespace fla {

/// A callback that somebody asked to be called; it is not called again once this object is gone. A call that
/// is under way on another thread may still finish after that. A forked child calls it, too: what it refers
/// to must not lie on the stack of a thread that the child does not have, since the C library unmaps such
/// stacks.
class Subscription {
 public:
  Subscription() = default;
  explicit Subscription(std::function<void()> end) : end_(std::move(end)) {}
  Subscription(Subscription&& other) noexcept : end_(std::exchange(other.end_, nullptr)) {}
  Subscription& operator=(Subscription&& other) noexcept {
    if (this != &other) {
      reset();
      end_ = std::exchange(other.end_, nullptr);
    }
    return *this;
  }
  ~Subscription() { reset(); }

  /// Ends it now.
  void reset() {
    if (const auto end = std::exchange(end_, nullptr)) end();
  }

 private:
  std::function<void()> end_;
};

}  // namespace fla
