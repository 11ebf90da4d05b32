#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "backends/flash_kda/flash.h"
#include "backends/flash_kda/forward.cuh"
#include "backends/flash_kda/plan.cuh"
#include "fla/ops/common/cuda/index_workspace.h"

/// Which way a call goes, and where in its workspace what lies. Host code; a route follows from shapes and
/// the device's size alone.
namespace fla::flash_kda {

/// Microseconds on an H200; a chunk is 64 tokens of one head. README.md has the measurements.
struct Costs {
  double prep = 3.5;           ///< of one chunk on one SM
  double prep_alone = 4.35;    ///< the same with all packets to memory
  double state = 1.3;          ///< of one chunk of a chain
  double state_beside = 1.36;  ///< the same while prep runs beside it
  double mixed = 1.15;         ///< how much of that where its SM shares instructions with one that prepares
  double split = 0.76;         ///< how much of a chunk where two CTAs share a chain
  double start = 5.0;          ///< of a chain: its first state, the first packet
  double start_beside = 4.4;   ///< the same while prep runs beside it
  double part = 0.88;          ///< of one chunk of a segment by itself
  double combine = 0.35;       ///< of one segment, where most of them forget what was before them
  double launch = 1.5;         ///< of one more kernel
  double traffic = 0.0217;     ///< of one packet with V and O through memory, all SMs at it
};
inline Costs costs_of(const RecurrenceCall& call) {
  const bool by_channel = call.gate_kind == GateKind::channel;
  if (call.rule == Rule::delta) return {.prep = by_channel ? 3.5 : 3.05};
  return {.prep = by_channel ? 2.4 : 2.1,
          .prep_alone = 3.3,
          .state = 1.05,
          .state_beside = 1.12,
          .split = 0.75,
          .part = 0.5,
          .combine = 0.1,
          .traffic = 0.0178};
}

inline std::int32_t ceil_div(std::int64_t a, std::int64_t b) {
  return static_cast<std::int32_t>((a + b - 1) / b);
}

inline std::int32_t items_of(const RecurrenceCall& call) {
  return static_cast<std::int32_t>(call.N * call.HV);
}
inline bool planned(const RecurrenceCall& call) { return call.cu_seqlens.data != nullptr; }

/// Whether four channels of a head can be read at once.
inline bool has_rows(const Parameters& x) {
  return x.data && x.dtype == DType::f32 && x.channel == 1 && x.head % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}
/// Whether TMA can bring a head's state, whichever of its axes has neighbours.
inline bool has_boxes(const States& x) {
  const auto fits = [](std::int64_t count, std::int64_t step) {
    return count <= 1 || (step > 0 && step % 4 == 0 && step < std::int64_t{1} << 38);
  };
  return x.data && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.slots > 0 &&
         x.slots < std::int64_t{1} << 31 && fits(x.slots, x.slot) && fits(2, x.head) &&
         ((x.key == 1 && fits(2, x.value)) || (x.value == 1 && fits(2, x.key)));
}
/// With sizes of pools that 32 bits hold: no device holds more.
inline RecurrenceCall with_pool(RecurrenceCall call) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  call.initial_state.slots = std::min(call.initial_state.slots, most);
  call.final_state.slots = std::min(call.final_state.slots, most);
  return call;
}
/// At most: a sequence's last chunk may be short.
inline std::int64_t chunks_at_most(const RecurrenceCall& call) {
  return planned(call) ? call.T / kChunk + call.N : call.N * ceil_div(call.T, kChunk);
}

/// CTAs of the plan kernel: one for every few hundred tasks that it lists.
inline int plan_blocks(const RecurrenceCall& call) {
  return planned(call)
             ? static_cast<int>(std::clamp<std::int64_t>(chunks_at_most(call) * call.HV / 512, 1, 64))
             : 1;
}

/// Chunks of a segment from which on it pays to look whether its past counts (segment.cuh): shorter ones wait
/// for the outcome longer than they work.
inline constexpr std::int32_t kWorthALook = 8;

/// Places of packets a stream has. All of them together are to stay in L2: with more, prep runs ahead of the
/// state where it can, and packets come back from memory (README.md).
inline std::int32_t depth_of(std::int32_t streams) { return std::clamp(350 / streams, 5, 32); }

/// Of two that wait for each other: longer than either where both take nearly the same time.
inline double together(double x, double y) {
  const double more = std::max(x, y), less = std::min(x, y), ratio = less / more, square = ratio * ratio,
               fourth = square * square;
  return more * (1 + fourth * fourth / 8);
}

inline Route cheapest_route(const RecurrenceCall& call, int processors, bool deterministic) {
  const Costs costs = costs_of(call);
  const std::int32_t items = items_of(call);
  if (items == 0) return {};
  const double chunks =
      std::max<double>(1, planned(call) ? call.T / double(kChunk) / call.N + 0.5 : ceil_div(call.T, kChunk));
  const double tasks = chunks * items, prep = tasks * costs.prep_alone / processors + costs.start;
  Route best{};
  double least = std::numeric_limits<double>::infinity();
  const auto offer = [&](double time, const Route& route) {
    if (time < least) least = time, best = route;
  };
  for (const std::int32_t shares : {1, 2}) {
    if (shares == 2 && call.V <= kChunk) break;
    const double part = shares == 2 || call.V <= kChunk ? costs.split : 1,
                 traffic = costs.traffic * (shares == 2 ? 1.75 : 1);  // both read the packet, not V and O
    const auto chain_of = [&](double state, double length) { return length * state * part; };
    offer(prep + costs.start + costs.launch +
              std::max(ceil_div(std::int64_t(items) * shares, processors) *
                           (chain_of(costs.state, chunks) + costs.start),
                       tasks * traffic),
          {.streams = items, .depth = 0, .prep_blocks = processors, .shares = shares});
    // Of equals the one with the fewest streams.
    for (std::int32_t streams = 1; streams <= std::min(items, (processors - 1) / shares); ++streams) {
      const std::int32_t others = processors - streams * shares, rounds = items / streams,
                         rest = items % streams;
      const double state = costs.state_beside * (others % 2 != 0 ? costs.mixed : 1);
      const auto round = [&](std::int32_t active) {
        return active == 0 ? 0.0
                           : together(active * chunks * costs.prep / others,
                                      chain_of(state, chunks) + costs.start_beside);
      };
      offer(costs.launch + 2.5 * costs.start + rounds * round(streams) + round(rest),
            {.streams = streams, .depth = depth_of(streams), .prep_blocks = others, .shares = shares});
    }
    if (deterministic || (planned(call) && call.N > 1)) continue;
    for (std::int32_t segments = 2; segments <= 64 && segments <= chunks / 4; ++segments) {
      const double length = ceil_div(static_cast<std::int64_t>(chunks), segments);
      const double parts = std::max(ceil_div(std::int64_t(items) * (2 * segments - 3), processors) *
                                        (length * costs.part + costs.start),
                                    tasks * 1.1 * costs.traffic);
      // Segments that are too short for a look all need the state before them.
      const double combine = costs.combine * (length < kWorthALook ? 4 : 1);
      const double state = std::max(ceil_div(std::int64_t(items) * segments * shares, processors) *
                                        chain_of(costs.state, length),
                                    tasks * traffic) +
                           2 * costs.start;
      offer(
          prep + parts + (segments - 2) * combine + state + 3 * costs.launch,
          {.streams = items, .depth = 0, .prep_blocks = processors, .segments = segments, .shares = shares});
    }
  }
  return best;
}

/// Columns of V know nothing of each other: calls with more than 128 go in slices of so many, each a call of
/// its own.
inline std::int32_t slices_of(const RecurrenceCall& call) { return ceil_div(call.V, kHead); }
inline RecurrenceCall slice_of(RecurrenceCall call, std::int32_t slice) {
  const std::int64_t first = std::int64_t{slice} * kHead;
  const auto from = [&](void*& data, std::int64_t bytes) {
    if (data) data = static_cast<std::byte*>(data) + bytes;
  };
  from(call.v.data, first * 2);
  from(call.o.data, first * 2);
  for (States* const states : {&call.initial_state, &call.final_state})
    from(states->data, first * states->value * 4);
  call.V = std::min(call.V - slice * kHead, kHead);
  return call;
}

/// Which squares of norms are ordinary: of keys from 2^-6 to 1.1 (additive: 2^10), of queries with 16 scale
/// from 2^-8 to 2^16, after they have been normalized, where they are.
inline Window window_of(const RecurrenceCall& call, bool queries) {
  const double factor = queries ? 256.0 * call.scale * call.scale : 1;
  const auto given = [&](double square) {  // what the square of a norm is that becomes this one
    if (!call.l2norm) return static_cast<float>(square / factor);
    const double rest = factor - square;  // factor x / (x + 1e-6) = square
    return rest > 0 ? static_cast<float>(1e-6 * square / rest) : std::numeric_limits<float>::max();
  };
  const double longest = call.rule == Rule::delta ? 1.1 : 0x1p10;
  return queries ? Window{given(0x1p-8), given(0x1p16)} : Window{given(0x1p-6), given(longest)};
}

/// Cuts a workspace into its parts; without memory it only counts.
class Carver {
 public:
  static constexpr std::size_t kGiven = 256, kMost = 1024;  ///< alignment of the memory, of its parts
  explicit Carver(void* memory) {
    if (!memory) return;
    memory_ = static_cast<std::uint8_t*>(memory);
    memory_ += (kMost - reinterpret_cast<std::uintptr_t>(memory) % kMost) % kMost;
  }
  template <class T>
  T* take(std::size_t count, std::size_t alignment = 256) {
    used_ = (used_ + alignment - 1) / alignment * alignment;
    T* const at = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += count * sizeof(T);
    return at;
  }
  /// With what may be left free in front.
  std::size_t used() const { return used_ + kMost - kGiven; }

 private:
  std::uint8_t* memory_ = nullptr;
  std::size_t used_ = 0;
};

struct Workspace {
  Schedule schedule;
  Segments segments;
  PlanParams plan;
  std::uint8_t* indices = nullptr;  ///< those that came from the host
  std::size_t bytes = 0;
};

inline Workspace workspace_of(const RecurrenceCall& call, const Route& route, void* memory) {
  Workspace w;
  Carver carver(memory);
  Schedule& s = w.schedule;
  s.items = items_of(call);
  s.streams = route.streams;
  s.depth = route.depth;
  const std::size_t packets =
      route.depth ? std::size_t(s.streams) * s.depth : std::size_t(chunks_at_most(call)) * call.HV;
  s.packets = carver.take<std::uint8_t>(packets * Packet::bytes, 1024);
  s.by_items = Divisor(s.items);
  s.by_heads = Divisor(call.HV);
  s.by_group = Divisor(call.group);
  s.by_depth = Divisor(std::max(1, s.depth));
  s.by_streams = Divisor(s.streams);
  if (route.depth) {
    s.ready = carver.take<std::uint32_t>(std::size_t(s.streams) * s.depth * kReadyApart);
    s.taken = carver.take<std::uint32_t>(std::size_t(s.streams) * 2 * kTakenApart);
    s.claim = carver.take<std::uint32_t>(1);
    s.parts = carver.take<std::uint32_t>(2 * kPartsApart);
  }
  if (planned(call)) {
    const std::size_t tasks = std::size_t(chunks_at_most(call)) * call.HV;
    s.plan.sequences = carver.take<Sequence>(call.N);
    if (!route.depth) s.plan.slices = carver.take<std::int32_t>(ceil_div(call.T, kChunk));
    s.plan.list = carver.take<PlannedTask>(tasks);
    s.plan.tasks = carver.take<std::int32_t>(1);
  } else {
    s.chunks = ceil_div(call.T, kChunk);
    s.tasks = static_cast<std::int32_t>(chunks_at_most(call) * call.HV);
    s.by_round = Divisor(std::clamp<std::int64_t>(std::int64_t{s.streams} * s.chunks, 1, 0x7fffffff));
    s.by_rest = Divisor(std::max(1, s.items % s.streams));
  }
  if (route.segments > 1) {
    w.segments.count = route.segments;
    w.segments.length = ceil_div(ceil_div(call.T, kChunk), route.segments);
    w.segments.images = carver.take<float>(std::size_t(s.items) * (route.segments - 1) * (64 * 256 + 1));
    w.segments.transitions =
        carver.take<std::uint8_t>(std::size_t(s.items) * std::max(0, route.segments - 2) * 4 * kTile, 1024);
  }
  w.indices = carver.take<std::uint8_t>(cuda::index_workspace(
      call.N, call.cu_seqlens.on_host, call.read_slots.on_host, call.write_slots.on_host));
  w.plan.schedule = s;
  w.plan.cu_seqlens = call.cu_seqlens;
  w.plan.T = static_cast<std::int32_t>(call.T);
  w.plan.N = static_cast<std::int32_t>(call.N);
  w.plan.HV = call.HV;
  w.plan.by_parts =
      Divisor(std::max<std::int64_t>(1, plan_blocks(call) * kPlanWarps / ceil_div(s.items, 32)));
  w.plan.claimed = 3 * route.prep_blocks;  // every block begins with three tasks of its own
  w.bytes = carver.used();
  return w;
}

}  // namespace fla::flash_kda
