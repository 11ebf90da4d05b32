#include "fla/core/fork.h"

#include <pthread.h>

#include <array>
#include <cstddef>

namespace fla {
namespace {

struct Guarded {
  void* mutex = nullptr;
  void (*lock)(void*) = nullptr;
  void (*unlock)(void*) = nullptr;
};
constinit std::array<Guarded, static_cast<std::size_t>(CoreLock::end)> guarded_mutexes{};
constinit thread_local bool forked = false;

void before() {
  for (const Guarded& each : guarded_mutexes) {
    if (each.mutex != nullptr) each.lock(each.mutex);
  }
}

void after() {
  for (const Guarded& each : guarded_mutexes) {
    if (each.mutex != nullptr) each.unlock(each.mutex);
  }
}

void in_child() {
  forked = true;
  after();
}

const int installed = pthread_atfork(before, after, in_child);

}  // namespace

void guard_against_fork(int place, void* mutex, void (*lock)(void*), void (*unlock)(void*)) {
  guarded_mutexes.at(static_cast<std::size_t>(place)) = {mutex, lock, unlock};
}

bool is_forked_thread() { return forked; }

}  // namespace fla
