#include "tests/backends/tilelang/emulation/block.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "tests/emulation/fiber.h"

alignas(1024) constinit thread_local unsigned char fla::tilelang::generated::buf_dyn_shmem[kSharedBytes];

namespace fla::tilelang::emulated {

Index thread_index, block_index;

namespace {

using emulation::Fiber;
using emulation::Stack;

struct Copy {
  void* to;
  std::vector<std::byte> bytes;
};

struct Thread {
  Stack stack;
  std::unique_ptr<Fiber> fiber;
  bool done = false;
  std::uint64_t posted = 0;
  std::vector<Copy> group;
  std::deque<std::vector<Copy>> groups;
};

Schedule schedule;
Fiber scheduler;
std::vector<std::unique_ptr<Thread>> threads;
const std::function<void()>* kernel = nullptr;
int waiting = 0;  // at the barrier
int running = 0;  // threads of the block

Thread& current() { return *threads[static_cast<std::size_t>(thread_index.x)]; }

void run_thread(void*) {
  (*kernel)();
  current().done = true;
  Fiber::switch_to(*current().fiber, scheduler);
  std::abort();
}

int turn_of(int i, int count, int phase) {
  switch (schedule.order) {
    case Schedule::Order::backwards: return count - 1 - i;
    case Schedule::Order::rotating: return (i + 37 * phase) % count;
    case Schedule::Order::forwards: break;
  }
  return i;
}

void run_block(int count) {
  running = count;
  std::memset(generated::buf_dyn_shmem, 0xff, generated::kSharedBytes);
  while (static_cast<int>(threads.size()) < count) threads.push_back(std::make_unique<Thread>());
  for (int i = 0; i < count; ++i) {
    Thread& thread = *threads[static_cast<std::size_t>(i)];
    thread.fiber = std::make_unique<Fiber>();
    thread.fiber->start(thread.stack, run_thread, nullptr);
    thread.done = false;
    thread.group.clear();
    thread.groups.clear();
  }
  for (int left = count, phase = 0; left > 0; ++phase) {
    waiting = 0;
    const int before = left;
    for (int i = 0; i < count; ++i) {
      thread_index.x = turn_of(i, count, phase);
      if (current().done) continue;
      Fiber::switch_to(scheduler, *current().fiber);
      left -= current().done;
    }
    if (left != before && waiting > 0) {
      std::fprintf(stderr, "block %d: %d threads ended while %d waited at a barrier\n", block_index.x,
                   before - left, waiting);
      std::abort();
    }
  }
}

}  // namespace

void set_schedule(const Schedule& wanted) { schedule = wanted; }

void run_grid(int blocks, int count, const std::function<void()>& body) {
  kernel = &body;
  for (block_index.x = 0; block_index.x < blocks; ++block_index.x) run_block(count);
}

int thread_count() { return running; }

void barrier() {
  ++waiting;
  Fiber::switch_to(*current().fiber, scheduler);
}

std::uint64_t& posted(int thread) { return threads[static_cast<std::size_t>(thread)]->posted; }

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

}  // namespace fla::tilelang::emulated
