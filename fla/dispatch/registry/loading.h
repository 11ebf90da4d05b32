#pragma once

#include <atomic>
#include <mutex>

/// Whose turn it is to load backends; not installed.
namespace fla::dispatch {

/// Loading runs code of others: static objects of plugins, their register functions, is_available(). Such
/// code may call fla, start threads that do and wait for them, or fork. So whoever loads holds no lock
/// meanwhile, only a turn. Other threads wait for its end where they need what is being loaded. The thread
/// whose turn it is, and those that were started on it meanwhile, are within: they go on with the backends
/// that are there.
class Loading {
 public:
  bool within() const;

  /// Waits until nobody loads, then keeps others from it. Nobody within may ask for one.
  class Turn {
   public:
    explicit Turn(Loading& loading);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Loading& loading_;
    int slack_;  // the thread's own
  };

  /// Across a fork: waits for the end of a turn, so that a child does not inherit one whose thread it does
  /// not have; within, goes on at once.
  void lock();
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;          // held for moments, or across a fork
  std::atomic<int> busy_{0};  // whether it is somebody's turn
  std::atomic<int> mark_{-1};
};

}  // namespace fla::dispatch
