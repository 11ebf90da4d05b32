#include "fla/core/fork.h"

#include <pthread.h>

#include <array>
#include <cstddef>

namespace fla {
namespace {

constinit std::array<std::mutex*, static_cast<std::size_t>(ForkOrder::count)> guarded{};
constinit thread_local bool forked = false;

void before() {
  for (std::mutex* mutex : guarded) {
    if (mutex != nullptr) mutex->lock();
  }
}

void after() {
  for (std::mutex* mutex : guarded) {
    if (mutex != nullptr) mutex->unlock();
  }
}

void in_child() {
  forked = true;
  after();
}

const int installed = pthread_atfork(before, after, in_child);

}  // namespace

void guard_against_fork(ForkOrder order, std::mutex& mutex) {
  guarded[static_cast<std::size_t>(order)] = &mutex;
}

bool is_forked_thread() { return forked; }

}  // namespace fla
