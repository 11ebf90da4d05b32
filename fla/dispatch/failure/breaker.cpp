#include "fla/dispatch/failure/breaker.h"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "fla/core/listeners.h"
#include "fla/core/logging.h"
#include "fla/dispatch/lock_order.h"

namespace fla {
namespace dispatch {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

constinit std::mutex mutex;
const bool guarded = (guard_against_fork(LockOrder::breakers, mutex), true);

using Name = std::tuple<std::string, std::string, std::string>;
Name name_of(const Breaker& breaker) { return {breaker.op(), breaker.function(), breaker.backend()}; }

// Never freed: breakers may end late.
struct Shared {
  std::map<const Breaker*, std::weak_ptr<Breaker>> all;
  std::map<Name, const Breaker*> newest;
};
Shared& shared() {
  static Shared& instance = *new Shared;
  return instance;
}

auto& listeners() {
  static auto& instance = *new Listeners<void(const BreakerEvent&)>;
  return instance;
}
const bool listeners_guarded = (guard_against_fork(LockOrder::breaker_listeners, listeners().mutex()), true);

std::int64_t steady_nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}
constinit std::atomic<std::int64_t (*)()> clock_in_use{nullptr};

std::int64_t now() {
  const auto read = clock_in_use.load(std::memory_order_relaxed);
  return read != nullptr ? read() : steady_nanoseconds();
}

/// "250 ms", "1.5 s", "30 s": seconds are rounded up to tenths.
std::string duration(std::int64_t nanoseconds) {
  const std::int64_t milliseconds = (nanoseconds + kMillisecond - 1) / kMillisecond;
  if (milliseconds < 1000) return std::to_string(milliseconds) + " ms";
  const std::int64_t tenths = (milliseconds + 99) / 100;
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10 != 0) text.append(".").append(std::to_string(tenths % 10));
  return text.append(" s");
}

/// After the change, with no lock held.
void tell(const BreakerEvent& event) {
  const auto level = event.to == BreakerState::open ? spdlog::level::warn : spdlog::level::info;
  if (log_enabled(level)) {
    log(level, "[FLA Backend] " + event.op + "." + event.function + " -> " + event.backend + ": breaker " +
                   std::string(name_of(event.to)) + ": " + event.reason);
  }
  for (const auto& listener : listeners().all()) {
    try {
      (*listener)(event);
    } catch (const std::exception& error) {
      log(spdlog::level::err,
          std::string("[FLA Backend] a listener of on_breaker_change threw: ") + error.what());
    } catch (...) {
      log(spdlog::level::err,
          "[FLA Backend] a listener of on_breaker_change threw an exception of unknown type");
    }
  }
}

}  // namespace

Breaker::Breaker(std::string_view op, std::string_view function, std::string_view backend)
    : op_(op), function_(function), backend_(backend) {}

BreakerEvent Breaker::change(BreakerState to, std::string reason) {
  const BreakerState from = state_.exchange(to, std::memory_order_acq_rel);
  return {op_, function_, backend_, from, to, std::move(reason), ++changes_};
}

bool Breaker::is_tried() const {
  // A trial that was under way on another thread when the process forked has no end in the child.
  return running_.load(std::memory_order_relaxed) != 0 &&
         running_in_.load(std::memory_order_relaxed) == ::getpid();
}

bool Breaker::admits() const {
  switch (state_.load(std::memory_order_acquire)) {
    case BreakerState::open: return now() >= tried_again_at_.load(std::memory_order_relaxed);
    case BreakerState::half_open: return !is_tried();
    case BreakerState::closed: break;
  }
  return true;
}

Breaker::Trial Breaker::admits_trial() {
  if (!admits()) return 0;  // without a lock: that is what nearly every call of a time of failure meets
  std::optional<BreakerEvent> event;
  Trial trial = 0;
  {
    const std::lock_guard lock(mutex);
    if (!admits()) return 0;
    if (closed()) return ++last_trial_;
    if (state() == BreakerState::open) event = change(BreakerState::half_open, "the cool-down is over");
    trial = ++last_trial_;
    running_in_.store(::getpid(), std::memory_order_relaxed);
    running_.store(trial, std::memory_order_relaxed);
  }
  if (event) tell(*event);
  return trial;
}

void Breaker::succeeded(Trial trial) {
  std::optional<BreakerEvent> event;
  {
    const std::lock_guard lock(mutex);
    if (trial == 0 || running_.load(std::memory_order_relaxed) != trial) return;
    running_.store(0, std::memory_order_relaxed);
    failures_.clear();
    why_.clear();
    event = change(BreakerState::closed, "the trial went well");
  }
  tell(*event);
}

void Breaker::abandoned(Trial trial) {
  const std::lock_guard lock(mutex);
  if (trial != 0 && running_.load(std::memory_order_relaxed) == trial) {
    running_.store(0, std::memory_order_relaxed);
  }
}

void Breaker::failed(const BreakerSettings& settings, std::string_view why, bool for_good, Trial trial) {
  std::optional<BreakerEvent> event;
  {
    const std::lock_guard lock(mutex);
    const bool was_trial = trial != 0 && running_.load(std::memory_order_relaxed) == trial;
    const BreakerState before = state();
    const bool is_off = settings.threshold <= 0;
    if (before != BreakerState::closed && !was_trial && !for_good) return;
    if (was_trial || for_good) running_.store(0, std::memory_order_relaxed);

    const std::int64_t failed_at = now();
    const std::int64_t window = settings.window_ms * kMillisecond;
    failures_.push_back(failed_at);
    while (failed_at - failures_.front() > window) failures_.pop_front();
    const auto most = static_cast<std::size_t>(is_off ? 1 : settings.threshold);
    if (failures_.size() > most) failures_.pop_front();

    std::int64_t opens_until = 0;
    if (for_good) {
      why_ = "the device is lost: " + std::string(why);
      opens_until = kNever;
    } else if (is_off) {
      failures_.clear();
      why_.clear();
      if (before != BreakerState::closed) event = change(BreakerState::closed, "the threshold is 0");
    } else if (was_trial) {
      why_ = "tried again and failed: " + std::string(why);
      opens_until = failed_at + settings.cool_down_ms * kMillisecond;
    } else if (failures_.size() == most) {
      why_ = std::to_string(most) + (most == 1 ? " failure" : " failures") + " within " + duration(window) +
             ", last: " + std::string(why);
      opens_until = failed_at + settings.cool_down_ms * kMillisecond;
    }
    if (opens_until != 0) {
      tried_again_at_.store(opens_until, std::memory_order_relaxed);
      if (before != BreakerState::open) event = change(BreakerState::open, why_);
    }
  }
  if (event) tell(*event);
}

Breaker::Status Breaker::status() const {
  const std::lock_guard lock(mutex);
  Status status{state(), static_cast<int>(failures_.size()), why_};
  const std::int64_t until = tried_again_at_.load(std::memory_order_relaxed);
  if (status.state == BreakerState::half_open) {
    status.reason += is_tried() ? "; a call tries it now" : "; the next call tries it";
  } else if (status.state == BreakerState::open) {
    const std::int64_t left = until == kNever ? kNever : until - now();
    if (left == kNever) {
      status.reason += "; not tried again before reset_breakers()";
    } else {
      status.reason += left > 0 ? "; tried again in " + duration(left) : "; the next call tries it";
    }
  }
  return status;
}

void Breaker::reset() {
  std::optional<BreakerEvent> event;
  {
    const std::lock_guard lock(mutex);
    running_.store(0, std::memory_order_relaxed);
    failures_.clear();
    why_.clear();
    if (state() != BreakerState::closed) event = change(BreakerState::closed, "reset");
  }
  if (event) tell(*event);
}

namespace {

void end_breaker(Breaker* breaker) {
  {
    const std::lock_guard lock(mutex);
    shared().all.erase(breaker);
    const auto newest = shared().newest.find(name_of(*breaker));
    if (newest != shared().newest.end() && newest->second == breaker) shared().newest.erase(newest);
  }
  delete breaker;
}

}  // namespace

std::shared_ptr<Breaker> new_breaker(std::string_view op, std::string_view function,
                                     std::string_view backend) {
  const std::shared_ptr<Breaker> made(new Breaker(op, function, backend), end_breaker);
  const std::lock_guard lock(mutex);
  shared().all[made.get()] = made;
  shared().newest[name_of(*made)] = made.get();
  return made;
}

std::shared_ptr<const Breaker> find_breaker(std::string_view op, std::string_view function,
                                            std::string_view backend) {
  const std::lock_guard lock(mutex);
  const auto found = shared().newest.find({std::string(op), std::string(function), std::string(backend)});
  return found != shared().newest.end() ? shared().all.at(found->second).lock() : nullptr;
}

void set_breaker_clock(std::int64_t (*now)()) { clock_in_use.store(now, std::memory_order_relaxed); }

}  // namespace dispatch

Subscription on_breaker_change(std::function<void(const BreakerEvent&)> listener) {
  return dispatch::listeners().add(std::move(listener));
}

void reset_breakers() {
  std::vector<std::shared_ptr<dispatch::Breaker>> all;
  {
    const std::lock_guard lock(dispatch::mutex);
    for (const auto& [key, breaker] : dispatch::shared().all) {
      if (auto living = breaker.lock()) all.push_back(std::move(living));
    }
  }
  for (const auto& breaker : all) breaker->reset();
}

}  // namespace fla
