#include "fla/core/openmp_use.h"

#ifdef __clang__

#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "fla/core/thread_end.h"

namespace fla {
namespace {

constinit std::atomic<bool> process_ends{false};
constinit std::atomic<int> using_threads{0};  // threads that hold a use
constinit thread_local bool thread_begun = false, thread_ended = false;
constinit thread_local int uses = 0;  // of this thread, one inside the other

bool begin() {
  if (thread_ended) return false;
  if (!thread_begun) at_thread_end([] { thread_ended = true; });
  thread_begun = true;
  ++using_threads;
  if (!process_ends) return true;
  --using_threads;
  return false;
}

// The runtime looks for symbols when it starts, and that takes the loader's lock. It starts here, because a
// thread that somebody waits for inside dlopen or dlclose could not start it. By then the use has made the
// key of at_thread_end: the runtime has one, too, and keys are destroyed in the order in which they were
// made.
struct OfProcess {
  OfProcess() {
    const OpenMpUse use;
    (void)omp_get_max_threads();
    pthread_atfork(nullptr, nullptr, [] { using_threads = uses > 0 ? 1 : 0; });
  }
  ~OfProcess() {
    process_ends = true;
    if (uses > 0) return;  // inside a region, which would wait for itself
    // Not for ever: a signal can make a thread of the runtime's own end the process.
    for (int i = 0; i < 10'000 && using_threads > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};
const OfProcess of_process;

}  // namespace

OpenMpUse::OpenMpUse() : allowed_(uses > 0 ? !process_ends : begin()) {
  if (allowed_) ++uses;
}

OpenMpUse::~OpenMpUse() {
  if (allowed_ && --uses == 0) --using_threads;
}

}  // namespace fla

#endif
