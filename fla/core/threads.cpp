#include "fla/core/threads.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "fla/core/environment_user.h"
#include "fla/core/errors.h"
#include "fla/core/fork.h"
#include "fla/core/openmp_use.h"

namespace fla {
namespace {

constexpr int kUnread = -1;
std::atomic<int> from_environment{kUnread};  // 0: not set
std::atomic<int> from_program{0};

struct Region {
  detail::ParallelBody body;
  void* context;
  std::int64_t tasks;
  int threads;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error{};

  void work(int thread) noexcept {
    try {
      for (std::int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
        body(context, task, thread);
    } catch (...) {
      next.store(tasks, std::memory_order_relaxed);
      if (!failed.exchange(true)) error = std::current_exception();
    }
  }
};

void run_on_openmp(Region& region) {
#pragma omp parallel num_threads(region.threads)
  {
    const OpenMpUse openmp;  // of every thread: a body may end the process
    region.work(omp_get_thread_num());
  }
}

// OpenMP's pool hangs on the thread that opened it. The one thread that survives a fork still points to a
// pool whose workers are gone, and would wait for them for ever; a thread that was born in the child opens a
// pool of its own.
class Leader {
 public:
  void run(Region& region) {
    std::unique_lock lock(mutex_);
    region_ = &region;
    changed_.notify_all();
    changed_.wait(lock, [this] { return region_ == nullptr; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return region_ != nullptr; });
      run_on_openmp(*region_);
      region_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Region* region_ = nullptr;
  std::thread thread_{[this] { serve(); }};
};

Leader& leader_of_this_process() {
  static Leader* leader = nullptr;  // reached by the forked thread alone; a grandchild makes its own
  static pid_t owner = 0;
  if (const pid_t self = ::getpid(); leader == nullptr || owner != self) {
    leader = new Leader;
    owner = self;
  }
  return *leader;
}

/// 0 when it is not set.
int count_of_environment() {
  const auto value = environment("FLA_NUM_THREADS");
  return value ? static_cast<int>(parse_number("FLA_NUM_THREADS", *value, 1, kMaxThreads)) : 0;
}
void apply_count(int count) { from_environment.store(count, std::memory_order_relaxed); }

constexpr std::array kThreadVariables{
    Variable{"FLA_NUM_THREADS", "1 to 1024", "OpenMP's choice", "CPU threads"},
};
const EnvironmentUser thread_settings{
    EnvironmentUser::Place::core, kThreadVariables,
    []() -> EnvironmentUser::Apply { return [count = count_of_environment()] { apply_count(count); }; }};

}  // namespace

int num_threads() {
  if (const int count = from_program.load(std::memory_order_relaxed)) return count;
  int count = from_environment.load(std::memory_order_relaxed);
  if (count == kUnread) apply_count(count = count_of_environment());
  if (count != 0) return count;
  const OpenMpUse openmp;
  return openmp ? std::clamp(omp_get_max_threads(), 1, kMaxThreads) : 1;
}

void set_num_threads(int count) {
  if (count < 0 || count > kMaxThreads) {
    throw InvalidArgument(
        "count", "expected 0 to " + std::to_string(kMaxThreads) + " threads, got " + std::to_string(count));
  }
  from_program.store(count, std::memory_order_relaxed);
}

int threads_worth(double operations) {
  constexpr double kOperationsAThread = 115'000;  // a token of one head of 128 x 128
  const int most = num_threads();
  return operations >= most * kOperationsAThread
             ? most
             : std::max(1, static_cast<int>(operations / kOperationsAThread));
}

void detail::parallel_for(std::int64_t tasks, int threads, ParallelBody body, void* context) {
  const OpenMpUse openmp;
  const int most = openmp ? threads : 1;
  Region region{body, context, tasks, static_cast<int>(std::clamp<std::int64_t>(tasks, 1, most))};
  if (region.threads == 1) {
    region.work(0);
  } else if (is_forked_thread()) {
    leader_of_this_process().run(region);
  } else {
    run_on_openmp(region);
  }
  if (region.error != nullptr) std::rethrow_exception(region.error);
}

}  // namespace fla
