#include <cstring>

#include "tests/emulation/instructions.h"
#include "tests/emulation/machine.h"

// A copy is made at once. That it may as well be made later is what the marks say that it leaves: they carry
// the clock of its mbarrier's phase or of its group, which a thread only knows after the wait.
namespace fla::emulation {
namespace {

/// A copy by the thread that runs, as seen by one of the memories.
struct Copy {
  Copy(Agent agent, Site site)
      : known{&self().known},
        fenced{&self().fenced},
        actor{.mark = {agent, machine().agents()[agent].clock, site},
              .known = known,
              .fenced = fenced,
              .self = self().agent,
              .async = true} {}
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  std::array<const Knowledge*, 1> known, fenced;
  Actor actor;
};

void expect_multiple(const char* what, std::uint64_t value, std::uint64_t of, Site site) {
  Machine& m = machine();
  if (value % of != 0)
    m.stop(Fault::misuse, m.name(self()) + " copies with " + what + " " + std::to_string(value) +
                              ", expected a multiple of " + std::to_string(of) + " (" + text_of(site) + ")");
}

/// The mbarrier that a load completes on: made, and made known to the async proxy.
Mbarrier& target(Smem bar, Site site) {
  Machine& m = machine();
  Block& block = *self().block;
  m.shared(block, bar, 8, 8, site);
  const auto found = block.mbarriers.find(bar);
  if (found == block.mbarriers.end())
    m.stop(Fault::misuse, m.name(self()) + " loads for an mbarrier at " + std::to_string(bar - kSharedBase) +
                              " (" + text_of(site) + ") where mbar_init has made none");
  m.read(block, bar, 8, Copy(found->second.loads, site).actor);
  return found->second;
}

/// Who waits for a load knows what its issuer had learned: the load came after that. What the issuer itself
/// did is released by his arrival alone.
void complete(Mbarrier& barrier, std::uint32_t bytes) {
  barrier.arriving.join(self().known);
  barrier.bytes -= bytes;
  end_phase_if_complete(barrier);
}

/// The thread's agents for bulk stores; the clock of both is the group that is being filled.
void open_stores(Thread& thread) {
  if (thread.store_reads == kNobody) {
    thread.store_reads =
        machine().agent(thread.block->slot, Role::store_reads, thread.index, thread.block->index);
    thread.store_writes =
        machine().agent(thread.block->slot, Role::store_writes, thread.index, thread.block->index);
  }
  thread.store_open = true;
}

/// Calls visit(row of the box, where it begins in global memory, first byte and end of what is inside the
/// tensor). Bytes of the row from `end` on, and all of them where the row itself is outside, are not there.
template <class Visit>
void for_each_row(const TensorMap& map, const int* at, const Visit& visit) {
  std::array<std::uint32_t, 5> place{};
  std::uint32_t rows = 1;
  for (int i = 1; i < map.rank; ++i) rows *= map.box[static_cast<std::size_t>(i)];
  const auto bytes = static_cast<std::int64_t>(map.element_bytes);
  const std::int64_t begin = std::max<std::int64_t>(0, -std::int64_t{at[0]}) * bytes;
  const std::int64_t end =
      std::min<std::int64_t>(map.box[0], static_cast<std::int64_t>(map.size[0]) - at[0]) * bytes;
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::int64_t offset = at[0] * bytes;
    bool is_inside = begin < end;
    for (std::size_t i = 1; i < static_cast<std::size_t>(map.rank); ++i) {
      const std::int64_t index = std::int64_t{at[i]} + place[i];
      is_inside = is_inside && index >= 0 && index < static_cast<std::int64_t>(map.size[i]);
      offset += index * static_cast<std::int64_t>(map.stride[i]);
    }
    if (is_inside)
      visit(row, map.data + offset, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end));
    else
      visit(row, static_cast<std::byte*>(nullptr), 0, 0);
    for (std::size_t i = 1; i < static_cast<std::size_t>(map.rank) && ++place[i] == map.box[i]; ++i)
      place[i] = 0;
  }
}

std::uint32_t row_bytes(const TensorMap& map) { return map.box[0] * map.element_bytes; }
std::uint32_t box_bytes(const TensorMap& map) {
  std::uint32_t bytes = map.element_bytes;
  for (int i = 0; i < map.rank; ++i) bytes *= map.box[static_cast<std::size_t>(i)];
  return bytes;
}
/// The 128-byte swizzle looks at addresses, not at rows.
Smem swizzled(const TensorMap& map, Smem address) {
  return map.swizzled ? address ^ ((address >> 7 & 7) << 4) : address;
}

void check_map(const TensorMap& map, Smem at, int rank, Site site) {
  Machine& m = machine();
  if (map.rank != rank)
    m.stop(Fault::misuse, m.name(self()) + " copies by a map of rank " + std::to_string(map.rank) +
                              " as by one of rank " + std::to_string(rank) + " (" + text_of(site) + ")");
  expect_multiple("a box at", at, 128, site);
}

}  // namespace

void fence_async(Site site) {
  if (machine().leaves_out("fence_async", site)) return;
  AgentState& agent = machine().agents()[self().agent];
  agent.fences.push_back(agent.clock++);
  self().fenced = self().known;
}

void tma_load(Smem to, const TensorMap& map, Smem bar, const int* coordinates, int rank, Site site) {
  Machine& m = machine();
  Block& block = *self().block;
  self().last = site;
  check_map(map, to, rank, site);
  Mbarrier& barrier = target(bar, site);
  const Copy copy(barrier.loads, site);
  for_each_row(map, coordinates,
               [&](std::uint32_t row, const std::byte* from, std::uint32_t begin, std::uint32_t end) {
                 if (from) m.read_global(from + begin, end - begin, copy.actor);
                 for (std::uint32_t at = 0; at < row_bytes(map); at += 16) {
                   std::byte* const piece =
                       m.write(block, swizzled(map, to + row * row_bytes(map) + at), 16, copy.actor);
                   for (std::uint32_t i = 0; i < 16; ++i)
                     piece[i] = from && at + i >= begin && at + i < end ? from[at + i] : std::byte{0};
                 }
               });
  complete(barrier, box_bytes(map));
}

void tma_store(const TensorMap& map, Smem from, const int* coordinates, int rank, Site site) {
  Machine& m = machine();
  Thread& thread = self();
  thread.last = site;
  check_map(map, from, rank, site);
  open_stores(thread);
  const Copy reads(thread.store_reads, site), writes(thread.store_writes, site);
  for_each_row(
      map, coordinates, [&](std::uint32_t row, std::byte* to, std::uint32_t begin, std::uint32_t end) {
        if (to) m.write_global(to + begin, end - begin, writes.actor);
        for (std::uint32_t at = 0; at < row_bytes(map); at += 16) {
          const std::byte* const piece =
              m.read(*thread.block, swizzled(map, from + row * row_bytes(map) + at), 16, reads.actor);
          for (std::uint32_t i = 0; i < 16; ++i)
            if (to && at + i >= begin && at + i < end) to[at + i] = piece[i];
        }
      });
}

void bulk_load(Smem to, const void* from, std::uint32_t bytes, Smem bar, Site site) {
  Machine& m = machine();
  self().last = site;
  expect_multiple("a target at", to, 16, site);
  expect_multiple("a source at", reinterpret_cast<std::uintptr_t>(from), 16, site);
  expect_multiple("a size of", bytes, 16, site);
  Mbarrier& barrier = target(bar, site);
  const Copy copy(barrier.loads, site);
  m.read_global(from, bytes, copy.actor);
  std::memcpy(m.write(*self().block, to, bytes, copy.actor), from, bytes);
  complete(barrier, bytes);
}

void bulk_store(void* to, Smem from, std::uint32_t bytes, Site site) {
  Machine& m = machine();
  Thread& thread = self();
  thread.last = site;
  expect_multiple("a target at", reinterpret_cast<std::uintptr_t>(to), 16, site);
  expect_multiple("a source at", from, 16, site);
  expect_multiple("a size of", bytes, 16, site);
  open_stores(thread);
  m.write_global(to, bytes, Copy(thread.store_writes, site).actor);
  std::memcpy(to, m.read(*thread.block, from, bytes, Copy(thread.store_reads, site).actor), bytes);
}

void bulk_commit(Site site) {
  if (machine().leaves_out("bulk_commit", site)) return;
  Thread& thread = self();
  if (thread.store_reads == kNobody) return;
  ++machine().agents()[thread.store_reads].clock;
  ++machine().agents()[thread.store_writes].clock;
  thread.store_open = false;
}

void bulk_wait_read(std::uint32_t pending, Site site) {
  if (machine().leaves_out("bulk_wait_read", site)) return;
  Thread& thread = self();
  if (thread.store_reads == kNobody) return;
  const Clock open = machine().agents()[thread.store_reads].clock;
  if (open > 1 + pending) thread.known.learn(thread.store_reads, open - 1 - pending);
}

void bulk_wait(std::uint32_t pending, Site site) {
  if (machine().leaves_out("bulk_wait", site)) return;
  Thread& thread = self();
  if (thread.store_reads == kNobody) return;
  bulk_wait_read(pending, site);
  const Clock open = machine().agents()[thread.store_writes].clock;
  if (open > 1 + pending) thread.known.learn(thread.store_writes, open - 1 - pending);
}

}  // namespace fla::emulation
