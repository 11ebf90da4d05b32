#include "fla/dispatch/call/counting.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "fla/core/logging.h"
#include "fla/core/thread_end.h"
#include "fla/dispatch/call/counter_table.h"
#include "fla/dispatch/call/thread_state.h"
#include "fla/dispatch/lock_order.h"

namespace fla::dispatch {

constinit thread_local ThreadState thread_state;

namespace {

class Cells;

constinit std::mutex mutex;
const bool counters_guarded = (guard_against_fork(LockOrder::counters, mutex), true);

constexpr std::size_t kMostGone = 128;  // names that nobody holds any more and that keep their counters

/// What a counter counts.
struct Counted {
  CounterName name;
  std::uint64_t place = 0;    // in the order in which names came
  std::uint64_t holders = 0;  // 0: the backend is gone
  bool free = false;          // to be had by the next name
};

// Never freed: threads may end after static objects are gone.
struct Shared {
  std::vector<Counted> counted;  // by counter
  std::map<CounterName, std::uint32_t> numbers;
  std::uint64_t places = 0;
  std::deque<std::uint32_t> gone;  // the longest gone first
  std::vector<std::uint32_t> free;
  std::map<CounterName, CounterTotals> removed;  // of names that lost their counters
  std::vector<CounterTotals> ended;              // of threads that are gone
  std::set<Cells*> alive;
  std::set<std::uint32_t> logged;
  std::set<std::tuple<std::uint32_t, const char*, unsigned>> logged_refusals;
};
Shared& shared() {
  static Shared& instance = *new Shared;
  return instance;
}

/// The calling thread's cells. Another thread reads them under the mutex; they move only under it.
class Cells {
 public:
  Cells() {
    const std::lock_guard lock(mutex);
    shared().alive.insert(this);
  }
  ~Cells() {
    const std::lock_guard lock(mutex);
    fold();
    shared().alive.erase(this);
    thread_state.cells = nullptr;
    thread_state.cell_count = 0;
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  void grow() {
    const std::lock_guard lock(mutex);
    fold();
    count_ = static_cast<std::uint32_t>(shared().counted.size() + 8);
    cells_ = std::make_unique<CounterCell[]>(count_);
    thread_state.cells = cells_.get();
    thread_state.cell_count = count_;
  }

  const CounterCell* find(std::uint32_t counter) const {
    return counter < count_ ? &cells_[counter] : nullptr;
  }

  /// Of a counter that nobody can count with.
  void clear(std::uint32_t counter) {
    if (counter >= count_) return;
    CounterCell& cell = cells_[counter];
    for (CounterCell::Count* count : {&cell.taken, &cell.failed, &cell.fell_back, &cell.turned_away})
      count->store(0, std::memory_order_relaxed);
    for (CounterCell::Reason& reason : cell.reasons) {
      reason.text.store(nullptr, std::memory_order_relaxed);
      reason.count.store(0, std::memory_order_relaxed);
    }
  }

 private:
  void fold() {
    Shared& all = shared();
    all.ended.resize(std::max<std::size_t>(all.ended.size(), count_));
    for (std::uint32_t i = 0; i < count_; ++i) all.ended[i].add(cells_[i]);
  }

  std::unique_ptr<CounterCell[]> cells_;
  std::uint32_t count_ = 0;
};

// On the heap: a fork leaves other threads' alone. No object with a destructor: calls may come after that.
constinit thread_local Cells* cells_of_thread = nullptr;

CounterCell& cell(std::uint32_t counter) {
  if (counter >= thread_state.cell_count) {
    if (cells_of_thread == nullptr) {
      cells_of_thread = new Cells;
      at_thread_end([] { delete std::exchange(cells_of_thread, nullptr); });
    }
    cells_of_thread->grow();
  }
  return thread_state.cells[counter];
}

CounterTotals totals_of(const Shared& all, std::uint32_t counter) {
  CounterTotals totals = counter < all.ended.size() ? all.ended[counter] : CounterTotals{};
  for (const Cells* cells : all.alive) {
    if (const CounterCell* counted = cells->find(counter)) totals.add(*counted);
  }
  return totals;
}

/// Takes the counter from a name that nobody holds.
void free_counter(Shared& all, std::uint32_t counter) {
  Counted& counted = all.counted[counter];
  all.removed[{counted.name.op, counted.name.function, "(removed)"}].add(totals_of(all, counter));
  if (counter < all.ended.size()) all.ended[counter] = {};
  for (Cells* cells : all.alive) cells->clear(counter);
  all.logged.erase(counter);
  std::erase_if(all.logged_refusals, [&](const auto& logged) { return std::get<0>(logged) == counter; });
  all.numbers.erase(counted.name);
  counted = {.name = {}, .free = true};
  all.free.push_back(counter);
}

std::string line_for(std::uint32_t counter, std::string_view rest) {
  const std::lock_guard lock(mutex);
  const CounterName& name = shared().counted[counter].name;
  return "[FLA Backend] " + name.op + "." + name.function + " -> " + name.backend + std::string(rest);
}

}  // namespace

void CounterTotals::add(const CounterCell& cell) {
  taken += cell.taken.load(std::memory_order_relaxed);
  failed += cell.failed.load(std::memory_order_relaxed);
  fell_back += cell.fell_back.load(std::memory_order_relaxed);
  turned_away += cell.turned_away.load(std::memory_order_relaxed);
  for (const CounterCell::Reason& reason : cell.reasons) {
    const char* text = reason.text.load(std::memory_order_acquire);
    if (text == nullptr) break;
    refused[{text, reason.file.load(std::memory_order_relaxed),
             reason.line.load(std::memory_order_relaxed)}] += reason.count.load(std::memory_order_relaxed);
  }
}

void CounterTotals::add(const CounterTotals& other) {
  taken += other.taken;
  failed += other.failed;
  fell_back += other.fell_back;
  turned_away += other.turned_away;
  for (const auto& [reason, count] : other.refused) refused[reason] += count;
}

std::uint32_t new_counter(std::string_view op, std::string_view function, std::string_view backend) {
  const std::lock_guard lock(mutex);
  Shared& all = shared();
  const CounterName name{std::string(op), std::string(function), std::string(backend)};
  const auto known = all.numbers.find(name);
  if (known != all.numbers.end()) {
    if (all.counted[known->second].holders++ == 0) std::erase(all.gone, known->second);
    return known->second;
  }
  if (all.free.empty()) {
    all.free.push_back(static_cast<std::uint32_t>(all.counted.size()));
    all.counted.emplace_back();
  }
  const std::uint32_t counter = all.free.back();
  all.free.pop_back();
  all.counted[counter] = {.name = name, .place = ++all.places, .holders = 1};
  all.numbers.emplace(name, counter);
  return counter;
}

void release_counter(std::uint32_t counter) {
  const std::lock_guard lock(mutex);
  Shared& all = shared();
  if (--all.counted[counter].holders > 0) return;
  all.gone.push_back(counter);
  if (all.gone.size() <= kMostGone) return;
  free_counter(all, all.gone.front());
  all.gone.pop_front();
}

void count_first(std::uint32_t counter) {
  CounterCell& counters = cell(counter);
  CounterCell::increment(counters.taken);
  {
    const std::lock_guard lock(mutex);
    if (!shared().logged.insert(counter).second) return;
  }
  if (log_enabled(spdlog::level::info)) log(spdlog::level::info, line_for(counter, ""));
}

void count_refusal_first(const Candidate& candidate, const Verdict& verdict) {
  auto& reasons = cell(candidate.counter).reasons;
  // The last place takes whatever finds no other, so that a verifier of many branches is counted whole.
  auto place =
      std::ranges::find_if(reasons.begin(), reasons.end() - 1, [](const CounterCell::Reason& reason) {
        return reason.text.load(std::memory_order_relaxed) == nullptr;
      });
  const bool is_last = place == reasons.end() - 1;
  if (place->text.load(std::memory_order_relaxed) == nullptr) {
    place->file.store(is_last ? "" : verdict.file(), std::memory_order_relaxed);
    place->line.store(is_last ? 0 : verdict.line(), std::memory_order_relaxed);
    place->text.store(is_last ? "other reasons" : verdict.text(), std::memory_order_release);
  }
  CounterCell::increment(place->count);
  if (is_last) return;
  {
    const std::lock_guard lock(mutex);
    if (!shared().logged_refusals.emplace(candidate.counter, verdict.text(), verdict.line()).second) return;
  }
  const auto level = verdict.failed() ? spdlog::level::warn : spdlog::level::info;
  if (!log_enabled(level)) return;
  log(level, line_for(candidate.counter, (verdict.failed() ? ": " : " refused: ") + verdict.reason()));
}

void count_failure(const Candidate& candidate, bool fell_back) {
  CounterCell& counters = cell(candidate.counter);
  CounterCell::increment(counters.failed);
  if (fell_back) CounterCell::increment(counters.fell_back);
}

void count_open(const Candidate& candidate) { CounterCell::increment(cell(candidate.counter).turned_away); }

std::vector<std::pair<CounterName, CounterTotals>> counted_so_far() {
  const std::lock_guard lock(mutex);
  const Shared& all = shared();
  std::map<std::uint64_t, std::uint32_t> in_order;  // counters by place
  for (std::uint32_t i = 0; i < all.counted.size(); ++i) {
    if (!all.counted[i].free) in_order.emplace(all.counted[i].place, i);
  }
  std::vector<std::pair<CounterName, CounterTotals>> found;
  found.reserve(in_order.size() + all.removed.size());
  for (const auto& [place, counter] : in_order)
    found.emplace_back(all.counted[counter].name, totals_of(all, counter));
  found.insert(found.end(), all.removed.begin(), all.removed.end());
  return found;
}

}  // namespace fla::dispatch
