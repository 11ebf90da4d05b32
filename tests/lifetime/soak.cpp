// Calls on eight threads while everything that can change does, and children that are forked in between.
//
//   fla_soak [--seconds N] [--threads N] [--fork-ms N] [--judge-memory]
//
// Every answer is held to what the original kernels gave at the beginning. Exits with 1 for a wrong answer, a
// child that did not end well, or, where that is to be judged, memory that grew; a sanitizer's report ends
// it, too. scripts/soak builds and runs it.
//
// In a sanitized process all threads but the library's own wait between two calls while a child is forked
// (fork_gate.h), kernels run on one thread, for LLVM's OpenMP runtime does not survive a fork either, and one
// child in a thousand may hang.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/choice/plan.h"
#include "fla/dispatch/config/config.h"
#include "fla/dispatch/observe/counters.h"
#include "fla/dispatch/observe/registry_snapshot.h"
#include "fla/dispatch/plugins/plugin.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tests/core/fork_gate.h"
#include "tests/dispatch/mix.h"
#include "tests/lifetime/live_memory.h"
#include "tests/plugins/plugin_folder.h"

namespace {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLA_SOAK_WITH_ARCHER
#endif
#endif
#ifdef FLA_SOAK_WITH_ARCHER
constexpr bool kHasArcher = true;
#else
constexpr bool kHasArcher = false;
#endif

using Clock = std::chrono::steady_clock;
using fla::KdaArgs;
using fla::KdaResult;

struct Options {
  double seconds = 1800;
  int threads = 8;
  int fork_ms = 100;
  bool judge_memory = false;
};

constexpr double kWarmUp = 300;          // seconds, after which memory is to be flat
constexpr double kMostGrowth = 0.05;     // of what it was then,
constexpr double kMostGrowthMiB = 16;    // and so much that caches of the allocator may take
constexpr unsigned kChildSeconds = 120;  // for a child, which a sanitizer and a busy machine make slow

/// Repeats it until the end.
template <class Body>
void repeat(const std::atomic<bool>& done, fla_test::ForkGate& gate, Body&& body) {
  while (!done) gate.pass(body);
}

/// The tensors of one call and what comes out of it.
class Call {
 public:
  Call(std::int64_t T, std::int64_t K, unsigned seed)
      : q_(fill(T * K, seed)),
        k_(fill(T * K, seed + 1)),
        v_(fill(T * K, seed + 2)),
        g_(T * K, -0.3f),
        beta_(T, 0.5f) {
    args.q = {q_.data(), fla::DType::f32, {1, T, 1, K}};
    args.k = {k_.data(), fla::DType::f32, {1, T, 1, K}};
    args.v = {v_.data(), fla::DType::f32, {1, T, 1, K}};
    args.g = {g_.data(), fla::DType::f32, {1, T, 1, K}};
    args.beta = {beta_.data(), fla::DType::f32, {1, T, 1}};
    const KdaResult result = fla::original::chunk_kda(args);
    expected_.assign(result.o.as<float>(), result.o.as<float>() + T * K);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool is_right(const KdaResult& result) const {
    const float* o = result.o.as<float>();
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (!(std::abs(o[i] - expected_[i]) <= 1e-4f)) return false;
    }
    return true;
  }

  KdaArgs args;

 private:
  static std::vector<float> fill(std::int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = std::uniform_real_distribution<float>(-0.3f, 0.3f)(random);
    return values;
  }

  std::vector<float> q_, k_, v_, g_, beta_, expected_;
};

struct State {
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> calls{0}, wrong{0}, changes{0}, events{0};
  std::uint64_t children = 0, dead = 0, hung = 0;
  fla_test::ForkGate gate;
  Call short_call{24, 16, 1}, long_call{80, 64, 7};  // the plugin takes calls with K = 64
  fla_test::PluginFolder folder;
  std::string plugin, damaged, config;
};

void tell_wrong(State& state, const std::string& what) {
  if (state.wrong.fetch_add(1) < 20) std::fprintf(stderr, "soak: wrong: %s\n", what.c_str());
}

/// The ways to make a call, one after the other.
void call_once(State& state, unsigned turn, std::mt19937& random) {
  const Call& call = random() % 4 == 0 ? state.long_call : state.short_call;
  std::optional<fla::ScopedPolicy> scope;
  try {
    if (turn % 5 == 1) scope.emplace(fla::Policy{.breaker_threshold = static_cast<int>(random() % 1000)});
    if (turn % 5 == 2) scope.emplace(fla::Policy{.deny = {{"kda.cpu_simd"}}});
    bool right = false;
    switch (turn % 4) {
      case 0: right = call.is_right(fla::chunk_kda(call.args)); break;
      case 1: right = call.is_right(fla::fused_recurrent_kda(call.args)); break;
      case 2: right = call.is_right(fla::plan("kda", "chunk_kda", call.args)(call.args)); break;
      default: right = call.is_right(fla::kda(call.args)); break;
    }
    if (!right) tell_wrong(state, "an answer of kda, way " + std::to_string(turn % 4));
    const std::string_view by = fla_test::mix_chunk({}).by;
    if (by != "original" && by != "steady" && by != "brief") tell_wrong(state, "taken by " + std::string(by));
  } catch (const std::exception& error) {
    tell_wrong(state, std::string("a call threw: ") + error.what());
  }
  state.calls.fetch_add(2, std::memory_order_relaxed);
}

/// Changes one thing again and again until the end.
std::thread churn(State& state, unsigned seed, std::function<void(std::mt19937&)> change) {
  return std::thread([&state, seed, change = std::move(change)] {
    std::mt19937 random(seed);
    repeat(state.done, state.gate, [&] {
      try {
        change(random);
      } catch (const std::exception& error) {
        tell_wrong(state, std::string("a change threw: ") + error.what());
      }
      state.changes.fetch_add(1, std::memory_order_relaxed);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    });
  });
}

void change_policy(std::mt19937& random) {
  fla::Policy policy{.on_failure = fla::OnFailure::fallback,
                     .breaker_cool_down_ms = static_cast<int>(random() % 5000)};
  if (random() % 4 == 0) policy.order["kda"] = {"cpu_simd"};
  if (random() % 8 == 0) policy.disable_dispatch = true;
  fla::set_policy(policy);
}

void change_backends(std::mt19937& random) {
  const auto name = std::to_string(::getpid()) + "_" + std::to_string(random() % 100'000);
  const auto brief = fla_test::add({.name = "brief_" + name, .priority = 2, .run = [](const auto&) {
                                      return fla_test::MixResult{"brief"};
                                    }});
  const auto failing =
      fla_test::add({.name = "failing_" + std::to_string(::getpid()),
                     .priority = 1,
                     .run = [](const auto&) -> fla_test::MixResult {
                       throw fla::BackendError("it fails", fla::BackendError::Wrote::nothing);
                     }});
  const fla::ScopedPolicy policy({.on_failure = fla::OnFailure::fallback, .breaker_threshold = 2});
  for (int i = 0; i < 4; ++i) (void)fla_test::mix_chunk({});
}

void change_config(const State& state, std::mt19937& random) {
  const std::string next = state.config + ".next";
  {
    std::ofstream file(next);
    if (random() % 8 == 0) {
      file << "order = 3\n";  // refused
    } else {
      file << "on_failure = 'fallback'\nbreaker.window_ms = " << 1 + random() % 9999
           << "\n[[rule]]\nop = 'kda'\nwhen = 'T < " << random() % 200
           << " and K == 16'\ndisable_dispatch = true\n";
    }
  }
  std::filesystem::rename(next, state.config);
  if (random() % 2 == 0) return;  // the watch sees it
  try {
    fla::reload_config();
  } catch (const fla::ConfigError&) {
  }
}

/// What is wrong in the file just then is refused, and what was in force stays.
void change_environment() {
  try {
    fla::reload_environment();
  } catch (const fla::ConfigError&) {
  }
}

void change_listeners(State& state, std::mt19937& random) {
  const auto count = [&state](const auto&) { state.events.fetch_add(1, std::memory_order_relaxed); };
  fla::Subscription inner = fla::on_breaker_change(count);
  const fla::Subscription outer = fla::on_config_change(
      [owned = std::make_shared<fla::Subscription>(std::move(inner)), count](const auto& change) {
        count(change);
        (void)fla::current_policy();
      });
  const fla::Subscription veto = fla::veto_config([](const auto&) { return std::nullopt; });
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
  (void)fla::counters_json();
}

void change_plugins(const State& state, std::mt19937&) {
  if (fla::load_plugin(state.damaged).state != "refused")
    throw fla::Error("a damaged plugin was not refused");
  (void)fla::plugins();
}

/// What a child does with the library; 0 when all went well.
int live_as_child(State& state, unsigned number) {
  std::mt19937 random(number);
  // The C library unmaps the stacks of threads that the child does not have when one of its own ends.
  if (number % 4 < 2) std::thread([] {}).join();
  for (unsigned turn = 0; turn < 8; ++turn) call_once(state, number + turn, random);
  if (number % 3 == 0) (void)fla::load_plugin(state.plugin);  // what the parent never loads
  if (number % 3 == 1) change_environment();                  // starts a watch of the child's own
  change_policy(random);
  change_backends(random);
  for (unsigned turn = 0; turn < 4; ++turn) call_once(state, turn, random);
  std::thread([&state, number] {
    std::mt19937 other(number);
    call_once(state, number, other);
  }).join();
  (void)fla::counters();
  return state.wrong == 0 ? 0 : 1;
}

void fork_once(State& state, std::vector<pid_t>& living) {
  const auto number = static_cast<unsigned>(state.children++);
  const pid_t child = state.gate.fork([] { return ::fork(); });
  if (child == 0) {
    ::alarm(kChildSeconds);
    state.wrong = 0;
    int code = 3;
    try {
      code = live_as_child(state, number);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "soak: child %u: %s\n", number, error.what());
    }
    // Half of them as programs end: calls of their own watch may be under way. Not with ThreadSanitizer: its
    // OpenMP tool, Archer, does not survive the end of a child.
    if (number % 2 == 0 || code != 0 || kHasArcher) ::_exit(code);
    std::exit(code);
  }
  if (child > 0) living.push_back(child);
}

void reap(State& state, std::vector<pid_t>& living, bool wait) {
  std::erase_if(living, [&](pid_t child) {
    int status = 0;
    if (::waitpid(child, &status, wait ? 0 : WNOHANG) != child) return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    const bool has_hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    ++(has_hung ? state.hung : state.dead);
    std::fprintf(stderr, "soak: a child ended by %s %d\n", WIFSIGNALED(status) ? "signal" : "exit",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return true;
  });
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

std::optional<Options> read_options(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--judge-memory") {
      options.judge_memory = true;
      continue;
    }
    if (i + 1 == count) return std::nullopt;
    const double value = std::atof(words[++i]);
    if (value <= 0) return std::nullopt;
    if (word == "--seconds") {
      options.seconds = value;
    } else if (word == "--threads") {
      options.threads = static_cast<int>(value);
    } else if (word == "--fork-ms") {
      options.fork_ms = static_cast<int>(value);
    } else {
      return std::nullopt;
    }
  }
  return options;
}

void prepare(State& state) {
  state.config = state.folder.write("soak.toml", "on_failure = 'fallback'\n");
  state.plugin = state.folder.copy("acme");
  state.damaged = state.folder.write("damaged.so", "no library");
  std::filesystem::permissions(state.damaged, std::filesystem::perms{0755});
  ::setenv("FLA_CONFIG", state.config.c_str(), 1);  // before there are threads: nobody may read it meanwhile
  ::setenv("FLA_LOG_LEVEL", "off", 1);
  fla::reload_environment();
  if (fla_test::kSanitized) fla::set_num_threads(1);
}

int soak(const Options& options) {
  // Never freed: children that exit may have threads that still use it.
  State& state = *new State;
  prepare(state);
  const auto steady = fla_test::add(
      {.name = "steady", .priority = 9, .run = [](const auto&) { return fla_test::MixResult{"steady"}; }});
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back([&state, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      unsigned turn = 0;
      repeat(state.done, state.gate, [&] { call_once(state, turn++, random); });
    });
  }
  threads.push_back(churn(state, 101, change_policy));
  threads.push_back(churn(state, 102, change_backends));
  threads.push_back(churn(state, 103, [&state](auto& random) { change_config(state, random); }));
  threads.push_back(churn(state, 104, [&state](auto& random) { change_listeners(state, random); }));
  threads.push_back(churn(state, 105, [&state](auto& random) { change_plugins(state, random); }));
  threads.push_back(churn(state, 106, [](auto&) { change_environment(); }));
  threads.push_back(churn(state, 107, [](auto&) {
    (void)fla::registry_snapshot();
    fla::reset_breakers();
  }));

  const auto begin = Clock::now();
  const auto elapsed = [&begin] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::vector<pid_t> living;
  double after_warm_up = 0, at_the_end = 0, next_line = 60;
  while (elapsed() < options.seconds) {
    fork_once(state, living);
    std::this_thread::sleep_for(std::chrono::milliseconds(options.fork_ms));
    reap(state, living, false);
    const double now = elapsed(), resident = resident_mib();
    // The most of five minutes each: what a change holds for a moment counts in both.
    if (now > kWarmUp && now <= 2 * kWarmUp) after_warm_up = std::max(after_warm_up, resident);
    if (now > options.seconds - kWarmUp) at_the_end = std::max(at_the_end, resident);
    if (now >= next_line) {
      next_line += 60;
      std::printf("soak: %.0f s, %llu calls, %llu children, %.1f MiB\n", now,
                  static_cast<unsigned long long>(state.calls.load()),
                  static_cast<unsigned long long>(state.children), resident);
      std::fflush(stdout);
    }
  }
  state.done = true;
  for (std::thread& thread : threads) thread.join();
  reap(state, living, true);

  const bool judged = options.judge_memory && options.seconds >= 3 * kWarmUp;
  const bool grew = judged && at_the_end > after_warm_up * (1 + kMostGrowth) + kMostGrowthMiB;
  const double most_hung =
      fla_test::kSanitized ? std::max(1.0, static_cast<double>(state.children) / 1000) : 0;
  const bool hangs = static_cast<double>(state.hung) > most_hung;
  const bool ok = state.wrong == 0 && state.dead == 0 && !hangs && !grew;
  std::string memory = "memory not judged";
  if (judged) {
    char text[128];
    std::snprintf(text, sizeof text,
                  "%.1f MiB after 5 minutes, %.1f at the end (at most 5 %% and 16 MiB more)", after_warm_up,
                  at_the_end);
    memory = text;
  }
  std::printf(
      "soak: %.0f s, %llu calls, %llu wrong, %llu changes, %llu events, %llu children, %llu dead, %llu hung, "
      "%s: %s\n",
      elapsed(), static_cast<unsigned long long>(state.calls.load()),
      static_cast<unsigned long long>(state.wrong.load()),
      static_cast<unsigned long long>(state.changes.load()),
      static_cast<unsigned long long>(state.events.load()), static_cast<unsigned long long>(state.children),
      static_cast<unsigned long long>(state.dead), static_cast<unsigned long long>(state.hung),
      memory.c_str(), ok ? "ok" : "FAILED");
  std::fflush(stdout);
  return ok ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  const std::optional<Options> options = read_options(count, words);
  if (!options) {
    std::fprintf(stderr, "usage: fla_soak [--seconds N] [--threads N] [--fork-ms N] [--judge-memory]\n");
    return 2;
  }
  return soak(*options);
}
