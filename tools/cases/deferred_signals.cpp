#include "tools/cases/deferred_signals.h"

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>

namespace fla::cases {
namespace {

constexpr std::array kSignals{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};

std::mutex mutex;
int living = 0;  // under the mutex
std::array<bool, kSignals.size()> ours{};
std::atomic<int> noted{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

void note(int signal) { noted.store(signal); }

}  // namespace

DeferredSignals::DeferredSignals() {
  const std::lock_guard lock(mutex);
  if (living++ > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    ours[i] = ::sigaction(kSignals[i], nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
              now.sa_handler == SIG_DFL;
    if (!ours[i]) continue;
    struct sigaction noting {};
    noting.sa_handler = note;
    noting.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], &noting, nullptr);
  }
}

DeferredSignals::~DeferredSignals() {
  const std::lock_guard lock(mutex);
  if (--living > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (ours[i]) std::signal(kSignals[i], SIG_DFL);
  }
  if (const int signal = noted.exchange(0); signal != 0) std::raise(signal);
}

int DeferredSignals::pending() noexcept { return noted.load(); }

}  // namespace fla::cases
