#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

/// The mutex of all that the dispatch knows; not installed.
namespace fla::dispatch {

/// Guards ops, backends, settings and snapshots; functions that need it held ask for the object. What is
/// dropped is freed after it is unlocked: the destructor of a backend may call the library.
class Lock {
 public:
  Lock();
  ~Lock() { unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() { lock_.lock(); }
  void unlock() {
    if (!lock_.owns_lock()) return;
    const auto dropped = std::exchange(dropped_, {});
    lock_.unlock();
  }

  void drop(std::shared_ptr<const void> what) { dropped_.push_back(std::move(what)); }

 private:
  std::unique_lock<std::mutex> lock_;
  std::vector<std::shared_ptr<const void>> dropped_;
};

}  // namespace fla::dispatch
