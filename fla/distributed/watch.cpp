#include "fla/distributed/watch.h"

#include <algorithm>
#include <utility>

#include "fla/core/errors.h"

namespace fla::distributed {

UnderWay::~UnderWay() = default;

std::string why_it_failed(const std::string& error, std::span<const int> missing, Watch::Duration limit) {
  const std::string within = std::to_string(limit.count()) + " s";
  if (missing.empty()) return error.empty() ? "the exchange took more than " + within : error;
  std::string ranks;
  for (const int rank : missing) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  ranks = (missing.size() == 1 ? "rank " : "ranks ") + ranks + " did not come";
  return error.empty() ? ranks + " to the exchange within " + within : error + "; " + ranks;
}

Watch::Watch(Watched watched, Duration limit)
    : watched_(std::move(watched)), limit_(limit), thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watch::add(std::unique_ptr<UnderWay> exchange) {
  {
    const std::lock_guard lock(mutex_);
    exchanges_.push_back({std::move(exchange)});
  }
  changed_.notify_all();
}

void Watch::fail(const std::string& why) {
  std::unique_lock lock(mutex_);
  fail(lock, why);
}

void Watch::check() {
  std::unique_lock lock(mutex_);
  if (failure_.empty()) {
    if (const std::string why = watched_.error(); !why.empty()) fail(lock, why);
  }
  if (!failure_.empty()) throw BackendError(failure_, BackendError::Wrote::maybe);
}

void Watch::fail(std::unique_lock<std::mutex>& lock, const std::string& why) {
  if (failing_) {
    changed_.wait(lock, [&] { return !failure_.empty(); });
    return;
  }
  failing_ = true;
  lock.unlock();
  const std::vector<int> missing = watched_.missing_ranks ? watched_.missing_ranks() : std::vector<int>{};
  const std::string text = why_it_failed(why, missing, limit_);
  lock.lock();
  failure_ = "fla::distributed on rank " + std::to_string(watched_.rank) + ": " + text;
  changed_.notify_all();
  lock.unlock();  // what is aborted may be a call on another thread that then asks what has failed
  watched_.abort();
  lock.lock();
}

/// Drops exchanges that are done.
bool Watch::too_late(Clock::time_point now) {
  std::erase_if(exchanges_, [](const Entry& entry) { return entry.exchange->done(); });
  return std::ranges::any_of(exchanges_, [&](Entry& entry) {
    if (entry.begin == Clock::time_point{} && entry.exchange->begun()) entry.begin = now;
    return entry.begin != Clock::time_point{} && now - entry.begin > limit_;
  });
}

void Watch::run() {
  using std::chrono::milliseconds;
  if (watched_.begin) watched_.begin();
  std::unique_lock lock(mutex_);
  while (!ended_ && !failing_) {
    if (std::string why = watched_.error(); !why.empty()) {
      fail(lock, why);
    } else if (too_late(Clock::now())) {
      fail(lock, {});
    } else {
      // Without exchanges that are known: one of a graph may be under way.
      changed_.wait_for(lock, exchanges_.empty() ? milliseconds(100) : milliseconds(1));
    }
  }
  exchanges_.clear();
}

}  // namespace fla::distributed
