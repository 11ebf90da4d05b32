#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fla/core/subscription.h"

namespace fla {

/// The callbacks of one kind that the library keeps; not installed. Must live for ever: subscriptions may end
/// late.
template <class Signature>
class Listeners {
 public:
  using Callback = std::function<Signature>;

  /// For guard_against_fork.
  std::mutex& mutex() { return mutex_; }

  Subscription add(Callback callback) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = ++last_id_;
    callbacks_.emplace_back(id, std::make_shared<Callback>(std::move(callback)));
    return Subscription([this, id] {
      std::shared_ptr<Callback> ended;  // goes when the mutex is unlocked: it may own another subscription
      const std::lock_guard ending(mutex_);
      const auto found =
          std::ranges::find_if(callbacks_, [id](const auto& entry) { return entry.first == id; });
      if (found == callbacks_.end()) return;
      ended = std::move(found->second);
      callbacks_.erase(found);
    });
  }

  /// Those of now, in the order in which they were added: to be called with no lock held.
  std::vector<std::shared_ptr<Callback>> all() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Callback>> found;
    for (const auto& [id, callback] : callbacks_) found.push_back(callback);
    return found;
  }

 private:
  std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Callback>>> callbacks_;
};

}  // namespace fla
