// Calls the library when the process or a thread of it ends, and says how that went: one line for each late
// call. The first argument says when.

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fla/core/threads.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"

namespace {

std::uint64_t taken_by_cpu_simd() {
  std::uint64_t taken = 0;
  for (const fla::BackendCounters& row : fla::counters()) {
    if (row.function == "chunk_kda" && row.backend == "cpu_simd") taken += row.taken;
  }
  return taken;
}

/// One call of 96 tokens: its last output.
float answer() {
  constexpr std::int64_t T = 96, H = 2, K = 32;
  std::vector<float> ones(T * H * K, 0.1f), gate(T * H * K, -0.5f), beta(T * H, 0.5f);
  const fla::TensorView tensor(ones.data(), fla::DType::f32, {1, T, H, K});
  const fla::KdaResult result = fla::chunk_kda({.q = tensor,
                                                .k = tensor,
                                                .v = tensor,
                                                .g = {gate.data(), fla::DType::f32, {1, T, H, K}},
                                                .beta = {beta.data(), fla::DType::f32, {1, T, H}}});
  return result.o.as<float>()[T * H * K - 1];
}

std::atomic<float> expected{0};
std::atomic<bool> alone{true};  // other threads do not call

/// Calls, holds the answer to the first one's, and the counter to one call more; a policy of its own besides.
void call(const char* when) {
  if (expected == 0) expected = answer();  // nobody called before
  const std::uint64_t before = taken_by_cpu_simd();
  const fla::ScopedPolicy policy({.breaker_threshold = 3});
  const bool right = answer() == expected;
  const std::uint64_t more = taken_by_cpu_simd() - before;
  const bool counted = alone ? more == 1 : more >= 1;
  char line[128];
  const int size = std::snprintf(line, sizeof line, "%s: %s, %s\n", when, right ? "right" : "wrong",
                                 counted ? "counted" : "not counted");
  (void)!::write(STDOUT_FILENO, line, static_cast<std::size_t>(size));
}

struct Late {
  const char* when = nullptr;
  ~Late() {
    if (when != nullptr) call(when);
  }
};
Late of_program;  // constructed after the library's own, which is loaded before
thread_local Late of_thread;

// Before any library's initialisers: what is registered here runs when everything else is gone.
const char* in_the_end = nullptr;
void call_in_the_end() {
  if (in_the_end != nullptr) call(in_the_end);
}
void register_first(int, char**, char**) { std::atexit(call_in_the_end); }
[[gnu::section(".preinit_array"), gnu::used]] void (*const first)(int, char**, char**) = register_first;

void call_by_key(void* when) { call(static_cast<const char*>(when)); }

void keep_calling() {
  for (int thread = 0; thread < 3; ++thread) {
    std::thread([] {
      for (;;) (void)answer();
    }).detach();
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string_view when = count > 1 ? words[1] : "";
  if (when == "first-of-all") {  // the library is used at the end alone
    in_the_end = "first-of-all";
    return 0;
  }
  const auto begin = [] { expected = answer(); };
  if (when == "atexit") {
    begin();
    std::atexit([] { call("atexit"); });
  } else if (when == "atexit-before") {
    std::atexit([] { call("atexit-before"); });
    begin();
  } else if (when == "static") {
    begin();
    of_program.when = "static";
  } else if (when == "in-the-end") {
    begin();
    in_the_end = "in-the-end";
  } else if (when == "thread_local") {  // of the main thread and of another, made before their first calls
    of_thread.when = "thread_local of main";
    begin();
    std::thread([] {
      of_thread.when = "thread_local";
      (void)answer();
    }).join();
  } else if (when == "key") {
    begin();
    pthread_key_t key;
    if (::pthread_key_create(&key, call_by_key) != 0) return 2;
    std::thread([key] {
      static char text[] = "key";
      ::pthread_setspecific(key, text);
      (void)answer();
    }).join();
  } else if (when == "detached") {
    begin();
    alone = false;
    keep_calling();
    of_program.when = "detached, static";
    in_the_end = "detached, in-the-end";
  } else if (when == "inside-a-region") {  // on whichever thread has the first task
    begin();
    in_the_end = "inside-a-region";
    fla::set_num_threads(2);
    fla::parallel_for(2, [](std::int64_t task, int) {
      if (task == 0) std::exit(0);
    });
  } else if (when == "watch") {  // FLA_CONFIG is set: its file changes all the time
    begin();
    std::thread([file = std::string(std::getenv("FLA_CONFIG"))] {
      for (int i = 0;; ++i) {
        std::ofstream(file + ".next") << "breaker.threshold = " << 1 + i % 9 << "\n";
        std::rename((file + ".next").c_str(), file.c_str());
      }
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    of_program.when = "watch, static";
    in_the_end = "watch, in-the-end";
  } else {
    return 2;
  }
  return 0;
}
