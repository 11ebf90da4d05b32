#include <array>
#include <bit>

#include "tests/emulation/instructions.h"
#include "tests/emulation/machine.h"

namespace fla::emulation {
namespace {

/// The 32 threads of a warp exchange a value without touching memory: that orders nothing.
template <class T, class Act>
void in_warp(const char* instruction, T& mine, Site site, const Act& act) {
  Thread& thread = self();
  machine().meet(thread.block->warps[thread.index / 32], instruction, 32, thread.index % 32, mine, site, act);
}

/// A wait that is left out still lets the others run: a loop around it would never end.
bool skips_wait(const char* instruction, Site site) {
  if (!machine().leaves_out(instruction, site)) return false;
  machine().yield();
  return true;
}

void acquire(const std::uint32_t* flag) {
  const auto released = machine().flags().find(flag);
  if (released != machine().flags().end()) self().known.join(released->second);
}

/// The mbarrier at an address, for a thread that must know of its mbar_init.
Mbarrier& mbarrier(Smem bar, Site site) {
  Machine& m = machine();
  Thread& thread = self();
  m.shared(*thread.block, bar, 8, 8, site);
  const auto found = thread.block->mbarriers.find(bar);
  if (found == thread.block->mbarriers.end())
    m.stop(Fault::misuse, m.name(thread) + " uses an mbarrier at " + std::to_string(bar - kSharedBase) +
                              " (" + text_of(site) + ") where mbar_init has made none");
  m.read(*thread.block, bar, 8, ThreadActor(m, thread, site).actor);
  return found->second;
}

/// A counter in shared memory, for a thread that must know of its first value. Those who raise it and those
/// who look are not in each other's way.
std::uint32_t* counter(Smem at, Site site) {
  Machine& m = machine();
  Thread& thread = self();
  std::byte* const bytes = m.shared(*thread.block, at, 4, 4, site);
  m.read(*thread.block, at, 4, ThreadActor(m, thread, site).actor);
  return reinterpret_cast<std::uint32_t*>(bytes);
}

void arrive(Mbarrier& barrier, Smem bar, Site site) {
  Machine& m = machine();
  if (barrier.pending == 0)
    m.stop(Fault::misuse, m.name(self()) + " arrives at the mbarrier at " +
                              std::to_string(bar - kSharedBase) + " (" + text_of(site) +
                              "), which expects no arrival any more in its phase " +
                              std::to_string(barrier.phase));
  --barrier.pending;
  barrier.arriving.join(m.released(self()));
}

/// The thread has seen the last phase's end.
void see(Mbarrier& barrier, Site site) {
  Thread& thread = self();
  thread.known.join(barrier.done);
  barrier.saw.push_back({thread.agent, machine().agents()[thread.agent].clock, site});
}

}  // namespace

/// A phase ends when everybody has arrived and every byte is there. Those who arrived must know that whoever
/// waits for the phase before has seen its end: he waits for a parity, which is over again now.
void end_phase_if_complete(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  for (const Mark& waiter : barrier.saw)
    if (!barrier.arriving.covers(waiter.agent, waiter.clock)) machine().missed_phase(barrier, waiter);
  barrier.saw.clear();
  barrier.done = std::move(barrier.arriving);
  barrier.done.learn(barrier.loads, machine().agents()[barrier.loads].clock++);
  barrier.arriving = {};
  barrier.pending = barrier.arrivals;
  ++barrier.phase;
  machine().wake(barrier.waiting);
}

std::uint32_t thread_index() { return self().index; }
std::uint32_t block_index() { return self().block->index; }
std::uint32_t processor_index() {
  const Options& options = machine().options();
  return options.first_processor + options.processors_apart * self().block->index;
}
std::uint32_t grid_size() { return self().block->launch->kernel->blocks; }

void warp_sync(Site site) {
  if (machine().leaves_out("warp_sync", site)) return;
  in_warp("warp_sync", self(), site, [](const std::vector<Thread*>& lanes) { machine().synchronise(lanes); });
}

bool any(bool x, Site site) {
  in_warp("any", x, site, [](const std::vector<bool*>& lanes) {
    bool result = false;
    for (const bool* lane : lanes) result = result || *lane;
    for (bool* lane : lanes) *lane = result;
  });
  return x;
}

std::uint32_t largest(std::uint32_t x, Site site) {
  in_warp("largest", x, site, [](const std::vector<std::uint32_t*>& lanes) {
    std::uint32_t result = 0;
    for (const std::uint32_t* lane : lanes) result = std::max(result, *lane);
    for (std::uint32_t* lane : lanes) *lane = result;
  });
  return x;
}

std::uint32_t bits_of_all(std::uint32_t x, Site site) {
  in_warp("bits_of_all", x, site, [](const std::vector<std::uint32_t*>& lanes) {
    std::uint32_t result = 0;
    for (const std::uint32_t* lane : lanes) result |= *lane;
    for (std::uint32_t* lane : lanes) *lane = result;
  });
  return x;
}

float shuffle_xor(float x, int mask, Site site) {
  struct Brought {
    float value;
    int mask;
  } mine{x, mask};
  in_warp("shuffle_xor", mine, site, [](const std::vector<Brought*>& lanes) {
    std::array<float, 32> values{};
    for (std::size_t i = 0; i < 32; ++i) values[i] = lanes[i]->value;
    for (std::size_t i = 0; i < 32; ++i)
      lanes[i]->value = values[(i ^ static_cast<std::size_t>(lanes[i]->mask)) % 32];
  });
  return mine.value;
}

std::int32_t shuffle(std::int32_t x, std::uint32_t from, Site site) {
  struct Brought {
    std::int32_t value;
    std::uint32_t from;
  } mine{x, from};
  in_warp("shuffle", mine, site, [](const std::vector<Brought*>& lanes) {
    std::array<std::int32_t, 32> values{};
    for (std::size_t i = 0; i < 32; ++i) values[i] = lanes[i]->value;
    for (Brought* lane : lanes) lane->value = values[lane->from % 32];
  });
  return mine.value;
}

std::uint32_t from_first_lane(std::uint32_t x, Site site) {
  in_warp("uniform", x, site, [](const std::vector<std::uint32_t*>& lanes) {
    for (std::uint32_t* lane : lanes) *lane = *lanes[0];
  });
  return x;
}

namespace {

Meeting& named_barrier(std::uint32_t id, std::uint32_t threads, Site site) {
  Machine& m = machine();
  Thread& mine = self();
  if (id >= 16 || threads == 0 || threads % 32 != 0 || threads > mine.block->launch->kernel->threads)
    m.stop(Fault::misuse, m.name(mine) + " is in barrier " + std::to_string(id) + " of " +
                              std::to_string(threads) + " threads (" + text_of(site) +
                              "), expected an id below 16 and a multiple of 32 threads, at most "
                              "those of the block");
  return mine.block->barriers[id];
}
const char* name_of_barrier(std::uint32_t id) {
  static constexpr std::array names{"barrier 0",  "barrier 1",  "barrier 2",  "barrier 3",
                                    "barrier 4",  "barrier 5",  "barrier 6",  "barrier 7",
                                    "barrier 8",  "barrier 9",  "barrier 10", "barrier 11",
                                    "barrier 12", "barrier 13", "barrier 14", "barrier 15"};
  return names.at(id);
}
/// Who waits knows afterwards what everybody knew; who went on knows nothing of the others.
void end_barrier(Meeting& meeting) {
  for (Thread* thread : meeting.here) thread->known.join(meeting.gone);
  machine().synchronise(meeting.here);
  meeting.gone = {};
}

}  // namespace

void barrier(std::uint32_t id, std::uint32_t threads, Site site) {
  if (machine().leaves_out("barrier", site)) return;
  Meeting& meeting = named_barrier(id, threads, site);
  if (!meeting.here.empty()) {  // bar.sync is the aligned form
    const Thread& first = *meeting.here.front();
    if (text_of(first.wait.site) != text_of(site))
      machine().stop(Fault::misuse, machine().name(self()) + " waits at " + name_of_barrier(id) + " (" +
                                        text_of(site) + ") where " + machine().name(first) +
                                        " waits at another place (" + text_of(first.wait.site) + ")");
  }
  machine().meet(meeting, name_of_barrier(id), threads, meeting.instruction ? meeting.arrived : 0, self(),
                 site, [&](const std::vector<Thread*>&) { end_barrier(meeting); });
}

void barrier_arrive(std::uint32_t id, std::uint32_t threads, Site site) {
  if (machine().leaves_out("barrier_arrive", site)) return;
  Meeting& meeting = named_barrier(id, threads, site);
  machine().pass(meeting, name_of_barrier(id), threads, site, [&] { end_barrier(meeting); });
}

void wait_for_kernel_before(Site site) {
  if (machine().leaves_out("wait_for_kernel_before", site)) return;
  Machine& m = machine();
  Launch* const before = m.before(*self().block->launch);
  if (!before) return;
  while (!before->is_done()) {
    before->waiting.push_back(&self());
    m.sleep({.what = Wait::For::kernel, .site = site});
  }
  self().known.join(before->done);
}

void let_next_kernel_come() {
  Block& block = *self().block;
  if (block.let_next_come) return;
  block.let_next_come = true;
  ++block.launch->let_next_come;
  machine().yield();  // here and now, before anything more is done
}

std::uint32_t load_acquire(const std::uint32_t* at, Site site) {
  Thread& thread = self();
  if (thread.flag == at && thread.flag_value == *at)  // a loop: let the others run
    machine().poll({.what = Wait::For::flag, .site = site, .value = *at + 1, .flag = at});
  thread.flag = at;
  thread.flag_value = *at;
  acquire(at);
  return *at;
}

void store_release(std::uint32_t* at, std::uint32_t x, Site site) {
  if (machine().leaves_out("store_release", site)) return;
  *at = x;
  machine().flags()[at] = machine().released(self());
  machine().flags_changed();
}

std::uint32_t fetch_add(std::uint32_t* at, std::uint32_t x) {
  const std::uint32_t before = *at;
  *at += x;
  machine().flags_changed();  // relaxed: what was released with the flag stays, nothing is added to it
  return before;
}

void wait_at_least(const std::uint32_t* at, std::uint32_t value, Site site) {
  if (skips_wait("wait_at_least", site)) return;
  while (std::bit_cast<std::int32_t>(*at - value) < 0)
    machine().poll({.what = Wait::For::flag, .site = site, .value = value, .flag = at});
  acquire(at);
}

void mbar_init(Smem bar, std::uint32_t arrivals, Site site) {
  Machine& m = machine();
  Thread& thread = self();
  m.shared(*thread.block, bar, 8, 8, site);
  m.write(*thread.block, bar, 8, ThreadActor(m, thread, site).actor);
  Mbarrier& barrier = thread.block->mbarriers[bar];
  if (!barrier.waiting.empty())
    m.stop(Fault::misuse, m.name(thread) + " makes an mbarrier at " + std::to_string(bar - kSharedBase) +
                              " (" + text_of(site) + ") where there is one that threads wait for");
  const Agent loads = m.agent(thread.block->slot, Role::loads, bar - kSharedBase, thread.block->index);
  barrier = Mbarrier{.arrivals = arrivals, .pending = arrivals, .loads = loads};
}

void mbar_arrive(Smem bar, Site site) {
  if (machine().leaves_out("mbar_arrive", site)) return;
  Mbarrier& barrier = mbarrier(bar, site);
  arrive(barrier, bar, site);
  end_phase_if_complete(barrier);
}

void mbar_expect(Smem bar, std::uint32_t bytes, Site site) {
  if (machine().leaves_out("mbar_expect", site)) return;
  Mbarrier& barrier = mbarrier(bar, site);
  barrier.bytes += bytes;
  arrive(barrier, bar, site);
  end_phase_if_complete(barrier);
}

bool mbar_try(Smem bar, std::uint32_t parity, Site site) {
  Mbarrier& barrier = mbarrier(bar, site);
  if ((barrier.phase & 1) == parity)
    machine().poll({.what = Wait::For::mbarrier, .site = site, .number = bar, .value = parity});
  if ((barrier.phase & 1) == parity) return false;
  see(barrier, site);
  return true;
}

void mbar_wait(Smem bar, std::uint32_t parity, Site site) {
  if (skips_wait("mbar_wait", site)) return;
  if (machine().takes_wrong_parity(site)) parity ^= 1;
  Mbarrier& barrier = mbarrier(bar, site);
  while ((barrier.phase & 1) == parity) {
    barrier.waiting.push_back(&self());
    machine().sleep({.what = Wait::For::mbarrier, .site = site, .number = bar, .value = parity});
  }
  see(barrier, site);
}

void store_release_shared(Smem at, std::uint32_t x, Site site) {
  if (machine().leaves_out("store_release_shared", site)) return;
  *counter(at, site) = x;
  self().block->counters[at] = machine().released(self());
  machine().flags_changed();
}

std::uint32_t wait_shared_at_least(Smem at, std::uint32_t value, Site site) {
  const std::uint32_t* const x = counter(at, site);
  if (skips_wait("wait_shared_at_least", site)) return *x;
  while (*x < value) machine().poll({.what = Wait::For::flag, .site = site, .value = value, .flag = x});
  const auto released = self().block->counters.find(at);
  if (released != self().block->counters.end()) self().known.join(released->second);
  return *x;
}

}  // namespace fla::emulation
