#include "fla/dispatch/registry/loading.h"

#include <sys/prctl.h>

namespace fla::dispatch {
namespace {

constinit thread_local bool loads = false;

/// By how many nanoseconds the kernel may delay the thread's timers. Threads inherit it from the one that
/// starts them, and nothing else that they inherit does so little: a nanosecond more marks those that are
/// started during a turn.
int timer_slack() { return ::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0); }
void set_timer_slack(int nanoseconds) {
  ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(nanoseconds), 0, 0, 0);
}

}  // namespace

bool Loading::within() const {
  return loads || (busy_.load(std::memory_order_acquire) != 0 &&
                   timer_slack() == mark_.load(std::memory_order_relaxed));
}

Loading::Turn::Turn(Loading& loading) : loading_(loading), slack_(timer_slack()) {
  static std::atomic<int> turns{0};
  for (;;) {
    {
      const std::lock_guard lock(loading_.mutex_);
      if (loading_.busy_.load(std::memory_order_acquire) == 0) {
        if (slack_ >= 0) loading_.mark_.store(slack_ + 1 + turns++ % 1000, std::memory_order_relaxed);
        loading_.busy_.store(1, std::memory_order_release);
        break;
      }
    }
    loading_.busy_.wait(1, std::memory_order_acquire);
  }
  loads = true;
  if (slack_ >= 0) set_timer_slack(loading_.mark_.load(std::memory_order_relaxed));
}

Loading::Turn::~Turn() {
  if (slack_ >= 0) set_timer_slack(slack_);
  loads = false;
  // Without the mutex: a thread within may hold it across a fork, and wait for a lock that this one holds.
  loading_.busy_.store(0, std::memory_order_release);
  loading_.busy_.notify_all();
}

void Loading::lock() {
  for (;;) {
    mutex_.lock();
    if (busy_.load(std::memory_order_acquire) == 0 || within()) return;
    mutex_.unlock();
    busy_.wait(1, std::memory_order_acquire);
  }
}

}  // namespace fla::dispatch
