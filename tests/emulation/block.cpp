#include "tests/emulation/block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "tests/emulation/fiber.h"

namespace fla::emulation::block {

Index thread_index, block_index;

namespace {

constexpr int kWarp = 32;

struct Copy {
  void* to;
  std::vector<std::byte> bytes;
};

enum class State : std::uint8_t { ready, looks_again, in_warp, at_barrier, done };

struct Thread {
  Stack stack;
  std::unique_ptr<Fiber> fiber;
  State state = State::ready;
  std::uint64_t posted = 0;
  Words brought[2] = {};  // to the last two exchanges: who is a step behind still reads the older one
  int exchanges = 0;
  std::vector<Copy> group;
  std::deque<std::vector<Copy>> groups;
};

Schedule schedule;
Fiber scheduler;
std::vector<std::unique_ptr<Thread>> threads;
const std::function<void()>* kernel = nullptr;
int running = 0;  // threads of the block

Thread& thread_at(int i) { return *threads[static_cast<std::size_t>(i)]; }
Thread& current() { return thread_at(thread_index.x); }

void run_thread(void*) {
  (*kernel)();
  current().state = State::done;
  Fiber::switch_to(*current().fiber, scheduler);
  std::abort();
}

void wait_in(State state) {
  current().state = state;
  Fiber::switch_to(*current().fiber, scheduler);
}

int turn_of(int i, int count, int phase) {
  switch (schedule.order) {
    case Schedule::Order::backwards: return count - 1 - i;
    case Schedule::Order::rotating: return (i + 37 * phase) % count;
    case Schedule::Order::last_warp_first: return count - kWarp - i / kWarp * kWarp + i % kWarp;
    case Schedule::Order::forwards:
    case Schedule::Order::first_warp_first: break;
  }
  return i;
}

bool all_are(int first, int count, State state) {
  return std::all_of(threads.begin() + first, threads.begin() + first + count,
                     [state](const auto& thread) { return thread->state == state; });
}
void release(int first, int count) {
  for (int i = first; i < first + count; ++i) thread_at(i).state = State::ready;
}

/// Runs those of turns first .. first + size - 1 that are ready, until each has to wait; whether any was.
bool run_ready(int first, int size, int phase) {
  bool moved = false;
  for (int i = first; i < first + size; ++i) {
    thread_index.x = turn_of(i, running, phase);
    if (current().state != State::ready) continue;
    Fiber::switch_to(scheduler, *current().fiber);
    moved = true;
  }
  return moved;
}

void release_warps() {
  for (int first = 0; first + kWarp <= running; first += kWarp) {
    if (all_are(first, kWarp, State::in_warp)) release(first, kWarp);
  }
}

void run_block(int count) {
  running = count;
  while (static_cast<int>(threads.size()) < count) threads.push_back(std::make_unique<Thread>());
  for (int i = 0; i < count; ++i) {
    Thread& thread = thread_at(i);
    thread.fiber = std::make_unique<Fiber>();
    thread.fiber->start(thread.stack, run_thread, nullptr);
    thread.state = State::ready;
    thread.exchanges = 0;
    thread.group.clear();
    thread.groups.clear();
  }
  for (int phase = 0; !all_are(0, count, State::done); ++phase) {
    bool moved = false;
    if (schedule.warp_by_warp() && count % kWarp == 0) {
      for (int first = 0; first < count; first += kWarp) {
        for (; run_ready(first, kWarp, phase); moved = true) release_warps();
      }
    } else {
      moved = run_ready(0, count, phase);
    }
    if (all_are(0, count, State::at_barrier)) release(0, count);
    release_warps();
    for (int i = 0; i < count; ++i) {
      if (thread_at(i).state == State::looks_again) thread_at(i).state = State::ready;
    }
    if (moved) continue;
    std::fprintf(
        stderr,
        "block %d: some threads wait at a barrier or for their warp, others ended or wait elsewhere\n",
        block_index.x);
    std::abort();
  }
}

}  // namespace

void set_schedule(const Schedule& wanted) { schedule = wanted; }

void run_grid(std::int64_t blocks, int count, std::span<unsigned char> shared,
              const std::function<void()>& body) {
  kernel = &body;
  for (block_index.x = 0; block_index.x < blocks; ++block_index.x) {
    std::ranges::fill(shared, static_cast<unsigned char>(0xff));
    run_block(count);
  }
}

int thread_count() { return running; }

void barrier() { wait_in(State::at_barrier); }

void let_others_run() { wait_in(State::looks_again); }

bool copies_are_late() { return schedule.late_copies; }

std::uint64_t& posted(int thread) { return thread_at(thread).posted; }

WarpExchange::WarpExchange(const Words& own)
    : first_(thread_index.x / kWarp * kWarp), slot_(current().exchanges++ % 2) {
  current().brought[slot_] = own;
  wait_in(State::in_warp);
}
const Words& WarpExchange::operator[](int lane) const { return thread_at(first_ + lane).brought[slot_]; }

void copy(void* to, const void* from, std::size_t bytes) {
  if (!schedule.late_copies) {
    std::memcpy(to, from, bytes);
    return;
  }
  const auto* data = static_cast<const std::byte*>(from);
  current().group.push_back({to, std::vector<std::byte>(data, data + bytes)});
}

void end_group() {
  current().groups.push_back(std::move(current().group));
  current().group.clear();
}

void wait_for_groups(int but_the_last) {
  auto& groups = current().groups;
  while (static_cast<int>(groups.size()) > but_the_last) {
    for (const Copy& copy : groups.front()) std::memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
    groups.pop_front();
  }
}

}  // namespace fla::emulation::block
