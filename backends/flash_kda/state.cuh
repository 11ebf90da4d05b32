#pragma once

#include "backends/flash_kda/prep.cuh"

/// State: packets in, o and the last state out. One CTA a stream, or two that have half of V each; per chunk
/// (notation: layout.cuh)
///     Y = V - K~ S      O = Q^ S + B V      S' = diag(gamma) S + K^r^T Y
/// in transposed registers, S^T divided by 16 (range of f16), Q^ times 16. Where the rule is additive, there
/// is no K~, Y is V, and B, times 16, takes V/16 as the state's product does: one batch of products a chunk.
///
///   warpgroup 0      a thread a warp: Q^, K~, gamma by bulk copies and, by TMA, V -> first stages; K^r, B
///                    -> rests (Stages); beside prep also: which packets are ready, which have been read.
///                    Before an item's packets, and after the last one's, an *opening* goes through the same
///                    stages: what the chain has to know, and by TMA the item's first state, as much as goes
///                    through a first stage, what is left through rests
///   warpgroups 1, 2  64 rows of V each, S^T (64 x 128, f32) in registers:
///       pack S/16 to f16 (A), decay S
///       wgmma  A [Q^ K~]^T  m64 n128, B K-major      meanwhile the O before -> its tile
///       Y^T = V^T/16 - ...  (A), V^T by ldmatrix.trans; whether f16 holds it (range.cuh)
///       wgmma  S += Y^T K^r m64 n128, B MN-major
///       wgmma  O += V^T B^T m64 n64, B K-major
///                    between items: the first state from the opening's stages, the last one into its place
///   warpgroup 3      two warps: each stores a half of O from its tile, by TMA or, where a sequence ends
///                    inside a chunk, row by row. Another warp stores the last state by TMA; then the
///                    opening's stages are free
///   warpgroup 4      has nothing to do
///
/// A thread of the state has v = 64 wg + 16 warp + lane / 4 (+ 8), k = 8 n + 2 (lane % 4) (+ 1) as element
/// 4 n + 2 [+ 8] + [+ 1].
namespace fla::flash_kda {

/// What goes through the stages before an item's packets.
struct Opening {
  // Bits: the first state comes by TMA, or is zero; the last one leaves by TMA; the sequence is skipped; no
  // more items.
  static constexpr std::uint32_t comes = 1, zero = 2, leaves = 4, skipped = 8, closes = 16;
  static constexpr std::uint32_t box = 2 * kTile;  // of a state: 128 rows of 32 f32, of which it has four
};

/// Shared memory. A packet comes in two parts: what a chunk needs first and is done with first, with V, and
/// the rest. While prep runs beside, a copy takes longer than a chunk. The additive rule has no K~, and with
/// chunks as short as a copy takes it wants more stages: they fit.
template <Rule rule>
struct Stages {
  static constexpr bool delta = rule == Rule::delta;
  static constexpr std::uint32_t firsts = delta ? 3 : 4, rests = delta ? 2 : 3;  // stages
  // Q^ and K~ alternate by halves of the channels, so that one product reads both as 128 rows.
  static constexpr std::uint32_t qk = 0, qk_half = delta ? 2 * kTile : kTile, v = 2 * qk_half,
                                 gamma = v + 2 * kTile, first = gamma + 1024;
  static constexpr std::uint32_t odd = gamma + Packet::odd - Packet::gamma;
  static constexpr std::uint32_t opening =
      gamma + Packet::tail;  // u32 [4]: tokens, first chunk, last chunk, bits
  // Where an opening's boxes are: so many in a first stage, then one in each of as many rests.
  static constexpr std::uint32_t first_boxes = gamma / Opening::box, rest_boxes = 4 - first_boxes;
  static constexpr std::uint32_t kr = 0, b = 2 * kTile, rest = 3 * kTile;
  static constexpr std::uint32_t rest_at = firsts * first;
  static constexpr std::uint32_t o = rest_at + rests * rest;  // [2 halves][64 tokens][64]
  static constexpr std::uint32_t bars = o + 2 * kTile;
  static constexpr std::uint32_t first_full = bars, first_empty = first_full + 8 * firsts,
                                 rest_full = first_empty + 8 * firsts, rest_empty = rest_full + 8 * rests;
  static constexpr std::uint32_t o_full = rest_empty + 8 * rests, o_empty = o_full + 16;  // [2 halves] each
  static constexpr std::uint32_t left = o_empty + 16;  // [rests]: a last state is in the stages from there on
  static constexpr std::uint32_t seen = left + 8 * rests,
                                 read = seen + 4;        // packets that are ready, that have been read
  static constexpr std::uint32_t all_read = 0x7fffffff;  // in `read`: nothing more comes
  static constexpr std::uint32_t job = seen + 8;         // u32 [8 warps]
  static constexpr std::uint32_t ticks = (job + 32 + 63) / 64 * 64;  // probe builds
  static constexpr std::uint32_t bytes = bars + 1024;

  /// Where the boxes of an opening are.
  FLA_DEVICE static void boxes_at(Smem smem, std::uint32_t first_stage, std::uint32_t rest_stage,
                                  Smem (&at)[4]) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i)
      at[i] = smem + (i < first_boxes ? first * first_stage + i * Opening::box
                                      : rest_at + rest * ((rest_stage + i - first_boxes) % rests));
  }
};
static_assert(Stages<Rule::delta>::first_boxes == 3 && Stages<Rule::additive>::first_boxes == 2);
static_assert(Stages<Rule::delta>::opening + 16 <= Stages<Rule::delta>::first);
static_assert(Stages<Rule::delta>::bytes + 1024 <= 232448 && Stages<Rule::additive>::bytes + 1024 <= 232448);

/// A place in a ring of mbarriers, and the phase it is in.
template <std::uint32_t count>
struct Turn {
  std::uint32_t both = 0;  ///< 2 place + phase: in one register
  FLA_DEVICE std::uint32_t at() const { return both >> 1; }
  FLA_DEVICE std::uint32_t phase() const { return both & 1; }
  FLA_DEVICE void next() { both = both < 2 * (count - 1) ? both + 2 : (both & 1) ^ 1; }
  /// Where phases do not matter.
  FLA_DEVICE void skip(std::uint32_t places) { both = 2 * ((at() + places) % count); }
};

/// Heads of 64 channels are padded to 128 with zeros, which stay zeros: nothing is read or written for them.
FLA_DEVICE void state_load(const Params& p, std::int64_t slot, std::int32_t head, std::uint32_t v,
                           std::uint32_t t, float (&s)[64]) {
  const States& states = p.call.initial_state;
#pragma unroll
  for (int i = 0; i < 64; ++i) s[i] = 0;
  if (!states.data || slot < 0 || v >= std::uint32_t(p.call.V)) return;
  const float* const from = static_cast<const float*>(states.data) + slot * states.slot + head * states.head +
                            v * states.value + 2 * t * states.key;
  const std::int64_t down = 8 * states.value;
  const bool pairs =
      states.key == 1 && (reinterpret_cast<std::uintptr_t>(from) & 7) == 0 && (states.value & 1) == 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (64 * half >= p.call.K) break;
    if (pairs) {
#pragma unroll
      for (int n = 8 * half; n < 8 * half + 8; ++n) {
        const F2 x = *reinterpret_cast<const F2*>(from + 8 * n),
                 y = *reinterpret_cast<const F2*>(from + down + 8 * n);
        s[4 * n] = x.x, s[4 * n + 1] = x.y, s[4 * n + 2] = y.x, s[4 * n + 3] = y.y;
      }
    } else {
#pragma unroll
      for (int n = 8 * half; n < 8 * half + 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) s[4 * n + i] = from[(8 * n + (i & 1)) * states.key + (i >> 1) * down];
    }
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) s[i] *= 0.0625f;
}

FLA_DEVICE void state_store(const Params& p, std::int64_t slot, std::int32_t head, std::uint32_t v,
                            std::uint32_t t, const float (&s)[64]) {
  const States& states = p.call.final_state;
  if (!states.data || slot < 0 || v >= std::uint32_t(p.call.V)) return;
  float* const to = static_cast<float*>(states.data) + slot * states.slot + head * states.head +
                    v * states.value + 2 * t * states.key;
  const std::int64_t down = 8 * states.value;
  const bool pairs =
      states.key == 1 && (reinterpret_cast<std::uintptr_t>(to) & 7) == 0 && (states.value & 1) == 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (64 * half >= p.call.K) break;
    if (pairs) {
#pragma unroll
      for (int n = 8 * half; n < 8 * half + 8; ++n) {
        *reinterpret_cast<F2*>(to + 8 * n) = F2{s[4 * n] * 16, s[4 * n + 1] * 16};
        *reinterpret_cast<F2*>(to + down + 8 * n) = F2{s[4 * n + 2] * 16, s[4 * n + 3] * 16};
      }
    } else {
#pragma unroll
      for (int n = 8 * half; n < 8 * half + 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) to[(8 * n + (i & 1)) * states.key + (i >> 1) * down] = s[4 * n + i] * 16;
    }
  }
}

/// Where a thread's elements of a state are among boxes of 128 rows of 32 columns, swizzled: body(address,
/// i): elements i and, with keys as columns, i + 1.
template <class Body>
FLA_DEVICE void for_boxes(bool keys, const Smem (&boxes)[4], std::uint32_t wg, std::uint32_t w4,
                          std::uint32_t lane, Body&& body) {
  const std::uint32_t g = lane >> 2, t = lane & 3;
  if (keys) {  // rows are v: k = 8 n + 2 t
    const Smem at = swizzled(64 * wg + 16 * w4 + g, 8 * t);
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const Smem x = boxes[n >> 2] + (at ^ ((n & 3) << 5));
      body(x, 4 * n);
      body(x + 1024, 4 * n + 2);
    }
  } else {  // rows are k, columns v
    const std::uint32_t index = 2 * wg + (w4 >> 1);
    const Smem box = index < 2 ? index == 0 ? boxes[0] : boxes[1] : index == 2 ? boxes[2] : boxes[3];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Smem at = box + swizzled(2 * t + i, 64 * (w4 & 1) + 4 * g);
#pragma unroll
      for (int n = 0; n < 16; ++n) {
        body(at + 1024 * n, 4 * n + i);
        body((at ^ 32) + 1024 * n, 4 * n + 2 + i);
      }
    }
  }
}
FLA_DEVICE void boxes_load(bool keys, const Smem (&boxes)[4], std::uint32_t wg, std::uint32_t w4,
                           std::uint32_t lane, float (&s)[64]) {
  for_boxes(keys, boxes, wg, w4, lane, [&](Smem at, int i) {
    if (keys) {
      const F2 x = load_f32x2(at);
      s[i] = x.x * 0.0625f, s[i + 1] = x.y * 0.0625f;
    } else {
      s[i] = load_f32(at) * 0.0625f;
    }
  });
}
FLA_DEVICE void boxes_store(bool keys, const Smem (&boxes)[4], std::uint32_t wg, std::uint32_t w4,
                            std::uint32_t lane, const float (&s)[64]) {
  for_boxes(keys, boxes, wg, w4, lane, [&](Smem at, int i) {
    if (keys)
      store(at, F2{s[i] * 16, s[i + 1] * 16});
    else
      store(at, s[i] * 16);
  });
}

/// What the chunk's decay leaves of the state. Before the products are issued: touching accumulators while a
/// group is in flight makes ptxas wait for it.
FLA_DEVICE void decay(float (&s)[64], const F2 (&gamma)[16]) {
#pragma unroll
  for (int n = 0; n < 16; ++n) {
    const F2 g = gamma[n];
    s[4 * n] *= g.x, s[4 * n + 1] *= g.y, s[4 * n + 2] *= g.x, s[4 * n + 3] *= g.y;
  }
}
/// A thread's part of it.
FLA_DEVICE void load_gamma(Smem at, std::uint32_t t, F2 (&gamma)[16]) {
  const Smem from = kept(at + 8 * t);  // so that the loads have it and an offset
#pragma unroll
  for (int n = 0; n < 16; ++n) gamma[n] = load_f32x2(from + 32 * n);
}

/// A thread's part of the chunk's decay: one number where gates are a number a token.
template <GateKind kind>
struct Gamma {
  F2 at[16];
  FLA_DEVICE Gamma(Smem from, std::uint32_t t) { load_gamma(from, t, at); }
  FLA_DEVICE void decay(float (&s)[64]) const { flash_kda::decay(s, at); }
};
template <>
struct Gamma<GateKind::token> {
  float all;
  FLA_DEVICE Gamma(Smem from, std::uint32_t) : all(load_f32(from)) {}
  FLA_DEVICE void decay(float (&s)[64]) const {
#pragma unroll
    for (int i = 0; i < 64; ++i) multiply_here(s[i], all);
  }
};
/// NaN where gamma is: the additive rule loses single channels, also where their gates are one number.
FLA_DEVICE void lose_channels(Smem from, std::uint32_t t, float (&s)[64]) {
  F2 gamma[16];
  load_gamma(from, t, gamma);
#pragma unroll
  for (int i = 0; i < 64; ++i)
    if (!is_finite((i & 1) != 0 ? gamma[i >> 2].y : gamma[i >> 2].x)) s[i] = kNaN;
}

/// `tid`: in its warpgroup.
template <int count>
FLA_DEVICE void image_load(const float* image, std::uint32_t tid, float (&s)[count]) {
  const float* const from = image + tid;
#pragma unroll
  for (int i = 0; i < count; ++i) s[i] = from[i * 128];
}
template <int count>
FLA_DEVICE void image_store(float* image, std::uint32_t tid, const float (&s)[count]) {
  float* const to = image + tid;
#pragma unroll
  for (int i = 0; i < count; ++i) to[i * 128] = s[i];
}

/// What a stream does, in order: body(number of the item, item, segment).
template <class Body>
FLA_DEVICE void for_jobs(const Params& p, std::int32_t stream, Body&& body) {
  for (std::int32_t job = stream; job < p.schedule.items * p.segments.count; job += p.schedule.streams) {
    const std::int32_t index = job % p.schedule.by_items;
    const Item item = item_of(p, index);
    const Segment segment = segment_of(p, job, item.chunks);
    if (segment.there) body(index, item, segment);
  }
}
/// All chunks of a stream, in order: body(number of the item, item, chunk, number among the stream's chunks).
template <class Body>
FLA_DEVICE void for_chunks(const Params& p, std::int32_t stream, Body&& body) {
  std::int32_t number = 0;
  for_jobs(p, stream, [&](std::int32_t index, const Item& item, const Segment& segment) {
    for (std::int32_t c = segment.first; c < segment.last; ++c, ++number) body(index, item, c, number);
  });
}

/// What a CTA of role `role` has of a stream: halves of V, 64 columns each. Alone with one half, a warpgroup
/// has the SM's tensor cores for itself. All of it is computed where it is wanted: over the chunks it would
/// take registers.
FLA_DEVICE std::int32_t stream_of(const Params& p, std::int32_t role) {
  return role < p.schedule.streams ? role : role - p.schedule.streams;
}
FLA_DEVICE std::uint32_t halves_of(const Params& p) {
  return !p.split && p.call.V > 64 ? std::uint32_t{2} : std::uint32_t{1};
}
FLA_DEVICE bool has_half(const Params& p, std::int32_t role, std::uint32_t half) {
  return p.split ? (role >= p.schedule.streams) == (half == 1) : 64 * half < std::uint32_t(p.call.V);
}
/// Threads that hold the state.
FLA_DEVICE std::uint32_t chains_of(const Params& p) { return 128 * halves_of(p); }
/// Rows 64 r to 64 r + 63 of boxes of a state that are the CTA's: body(box, r), of boxes `from` to `end`.
template <class Body>
FLA_DEVICE void for_boxes_of(const Params& p, std::int32_t role, const States& states, std::uint32_t from,
                             std::uint32_t end, Body&& body) {
  for (std::uint32_t i = from; i < end; ++i)
    for (std::uint32_t r = 0; r < 2; ++r)
      if (has_half(p, role, states.key == 1 ? r : i >> 1)) body(i, r);
}

/// How a job's states come and leave: bits of its opening.
FLA_DEVICE std::uint32_t ways_of(const Params& p, const Segment& segment, const Slots& slots) {
  if (slots.read < 0) return Opening::skipped | Opening::zero;
  const bool leaves = p.last_by_tma && segment.ends && slots.write >= 0;
  return (segment.index > 0            ? 0
          : p.first_by_tma             ? Opening::comes
          : !p.call.initial_state.data ? Opening::zero
                                       : 0) |
         (leaves ? Opening::leaves : 0);
}
/// What the CTA has of a state's boxes from number `from` to `end`, by one thread.
FLA_DEVICE void state_comes(const Params& p, std::int32_t role, Smem stage, Smem full, std::uint32_t from,
                            std::uint32_t end, const Item& item, const Slots& slots) {
  const States& states = p.call.initial_state;
  std::uint32_t bytes = 0;
  for_boxes_of(p, role, states, from, end, [&](std::uint32_t, std::uint32_t) { bytes += kTile; });
  mbar_expect(full, bytes);
  for_boxes_of(p, role, states, from, end, [&](std::uint32_t i, std::uint32_t r) {
    tma_load(stage + (i - from) * Opening::box + r * kTile, &p.first_state, full, 32 * i, 64 * r, item.head,
             slots.read);
  });
}

/// Until nobody reads the stage any more, and a last state has left it.
FLA_DEVICE void wait_for_stage(Smem empty, std::uint32_t phase, Patience& patience) {
  mbar_wait(empty, phase ^ 1, patience);
  fence_async_shared();
}

/// Warpgroup 0, warps 0 and 3, one thread each: the first parts of packets, and V; the rest.
template <Rule rule>
FLA_DEVICE void state_loads_first(const Params& p, Smem smem, std::int32_t role) {
  using State = Stages<rule>;
  Patience patience;
  Turn<State::firsts> turn;
  std::int32_t number = 0;
  const auto open = [&](const U4& opening, auto&& load) {
    const Smem full = smem + State::first_full + 8 * turn.at(), stage = smem + State::first * turn.at();
    wait_for_stage(smem + State::first_empty + 8 * turn.at(), turn.phase(), patience);
    store(stage + State::opening, opening);
    load(stage, full);
    turn.next();
  };
  for_jobs(p, stream_of(p, role), [&](std::int32_t index, const Item& item, const Segment& segment) {
    const Slots slots = slots_of(p.call, item.n);
    const std::uint32_t ways = ways_of(p, segment, slots);
    open({std::uint32_t(item.tokens), std::uint32_t(segment.first), std::uint32_t(segment.last), ways},
         [&](Smem stage, Smem full) {
           if (ways & Opening::comes)
             state_comes(p, role, stage, full, 0, State::first_boxes, item, slots);
           else
             mbar_arrive(full);
         });
    for (std::int32_t c = segment.first; c < segment.last; ++c, ++number) {
      const Smem full = smem + State::first_full + 8 * turn.at(), stage = smem + State::first * turn.at();
      const std::uint8_t* const packet =
          p.schedule.packets + packet_of(p.schedule, index, c, number) * Packet::bytes;
      wait_for_stage(smem + State::first_empty + 8 * turn.at(), turn.phase(), patience);
      mbar_expect(full, ((rule == Rule::delta ? 4 : 2) + halves_of(p)) * kTile + Packet::tail);
      for (std::uint32_t h = 0; h < 2; ++h)
        if (has_half(p, role, h))
          tma_load(stage + State::v + h * kTile, &p.v, full, 64 * h, item.head, item.begin + c * kChunk,
                   item.batch);
      if (p.schedule.ready) {
        wait_shared_at_least(smem + State::seen, number + 1, patience);
        fence_async_global();
      }
      for (int h = 0; h < 2; ++h) {
        bulk_load(stage + State::qk + h * State::qk_half, packet + Packet::qh + h * kTile, kTile, full);
        if constexpr (rule == Rule::delta)
          bulk_load(stage + State::qk + (2 * h + 1) * kTile, packet + Packet::kt + h * kTile, kTile, full);
      }
      bulk_load(stage + State::gamma, packet + Packet::gamma, Packet::tail, full);
      turn.next();
    }
  });
  open({0, 0, 0, Opening::closes}, [](Smem, Smem full) { mbar_arrive(full); });
}
template <Rule rule>
FLA_DEVICE void state_loads_rest(const Params& p, Smem smem, std::int32_t role) {
  using State = Stages<rule>;
  Patience patience;
  Turn<State::rests> turn;
  std::int32_t number = 0;
  std::uint32_t before = 0;  // whether what went through the other stages before is a packet: a bit each
  static_assert(State::rests <= 3);
  const auto wait = [&](std::uint32_t packet) {
    wait_for_stage(smem + State::rest_empty + 8 * turn.at(), turn.phase(), patience);
    store_release_shared(smem + State::read, number - (before & 1) - (before >> 1 & 1));
    before = (before << 1 | packet) & ((1u << (State::rests - 1)) - 1);
  };
  for_jobs(p, stream_of(p, role), [&](std::int32_t index, const Item& item, const Segment& segment) {
    const Slots slots = slots_of(p.call, item.n);
    for (std::uint32_t i = State::first_boxes; i < 4; ++i) {
      wait(0);
      if (ways_of(p, segment, slots) & Opening::comes)
        state_comes(p, role, smem + State::rest_at + State::rest * turn.at(),
                    smem + State::rest_full + 8 * turn.at(), i, i + 1, item, slots);
      else
        mbar_arrive(smem + State::rest_full + 8 * turn.at());
      turn.next();
    }
    for (std::int32_t c = segment.first; c < segment.last; ++c, ++number) {
      const Smem full = smem + State::rest_full + 8 * turn.at(),
                 stage = smem + State::rest_at + State::rest * turn.at();
      const std::uint8_t* const packet =
          p.schedule.packets + packet_of(p.schedule, index, c, number) * Packet::bytes;
      wait(1);
      mbar_expect(full, 3 * kTile);
      if (p.schedule.ready) {
        wait_shared_at_least(smem + State::seen, number + 1, patience);
        fence_async_global();
      }
      bulk_load(stage + State::kr, packet + Packet::kr, 3 * kTile, full);
      turn.next();
    }
  });
  for (std::uint32_t i = State::first_boxes; i < 4; ++i) {
    wait(0);
    mbar_arrive(smem + State::rest_full + 8 * turn.at());
    turn.next();
  }
  store_release_shared(smem + State::read, State::all_read);
}
/// While prep runs beside. Warp 1, one thread: looks which packets are ready, so that the loads never
/// wait for memory.
template <Rule rule>
FLA_DEVICE void state_looks(const Params& p, Smem smem, std::int32_t role) {
  using State = Stages<rule>;
  Patience patience;
  for_chunks(p, stream_of(p, role),
             [&](std::int32_t index, const Item&, std::int32_t c, std::int32_t number) {
               wait_at_least(p.schedule.ready + packet_of(p.schedule, index, c, number) * kReadyApart,
                             number + 1, patience);
               store_release_shared(smem + State::seen, number + 1);
             });
}
/// Warp 2, one thread: tells prep how many packets have been read; what is told late is told at once.
template <Rule rule>
FLA_DEVICE void state_tells(const Params& p, Smem smem, std::int32_t role) {
  using State = Stages<rule>;
  Patience patience;
  for (std::uint32_t told = 0;;) {
    told = wait_shared_at_least(smem + State::read, told + 1, patience);
    if (told >= State::all_read) break;
    store_release(p.schedule.taken + role * kTakenApart, told);
  }
}
/// Warpgroup 3, two warps: each stores a half of O from shared memory, whole chunks by TMA, the last chunk of
/// a sequence row by row where it is short.
template <Rule rule, std::uint32_t half>
FLA_DEVICE void state_stores(const Params& p, Smem smem, std::int32_t role, std::uint32_t lane) {
  using State = Stages<rule>;
  Patience patience;
  std::uint32_t phase = 0;
  for_jobs(p, stream_of(p, role), [&](std::int32_t, const Item& item, const Segment& segment) {
    const bool skipped = slots_of(p.call, item.n).read < 0;
    std::int32_t token = item.begin + segment.first * kChunk, rows = item.tokens - segment.first * kChunk;
    for (std::int32_t left = segment.last - segment.first; left > 0;
         --left, token += kChunk, rows -= kChunk) {
      const Smem tile = smem + State::o + half * kTile;
      mbar_wait(smem + State::o_full + 8 * half, phase, patience);
      phase ^= 1;
      warp_sync();
      if (skipped) {  // zeros
        for (std::uint32_t i = 16 * kept(lane); i < kTile; i += 16 * 32) store(tile + i, U4{0, 0, 0, 0});
        fence_async_shared();
        warp_sync();
      }
      if (rows >= kChunk || !p.schedule.plan.sequences) {  // TMA ends at T, not at the sequence's end
        if (lane == 0) {
          fence_async_shared();
          tma_store(&p.o, tile, 64 * half, item.head, token, item.batch);
          bulk_commit();
          bulk_wait_read();
        }
      } else {
        const Rows& o = p.call.o;
        // Computed where it is wanted: over the chunks it would take registers.
        const std::uint32_t column = 8 * (kept(lane) & 7);
        std::uint16_t* const to =
            static_cast<std::uint16_t*>(o.data) + item.head * o.head + 64 * half + column;
        for (std::int32_t r = kept(lane) >> 3; r < rows; r += 4)
          *reinterpret_cast<U4*>(to + (token + r) * o.token) = load_u32x4(tile + swizzled(r, 2 * column));
      }
      warp_sync();
      if (lane == 0) mbar_arrive(smem + State::o_empty + 8 * half);
    }
  });
  if (lane == 0) bulk_wait();
}

/// Warpgroup 3, another warp's thread: last states from the stages of the opening after them, which are free
/// then.
template <Rule rule>
FLA_DEVICE void state_leaves(const Params& p, Smem smem, std::int32_t role) {
  using State = Stages<rule>;
  Patience patience;
  Turn<State::firsts> first;
  Turn<State::rests> rest;
  std::uint32_t phases = 0;  // a bit a stage
  for_jobs(p, stream_of(p, role), [&](std::int32_t, const Item& item, const Segment& segment) {
    const Slots slots = slots_of(p.call, item.n);
    first.skip(1 + segment.last - segment.first);
    rest.skip(State::rest_boxes + segment.last - segment.first);
    if (!(ways_of(p, segment, slots) & Opening::leaves)) return;
    mbar_wait(smem + State::left + 8 * rest.at(), phases >> rest.at() & 1, patience);
    phases ^= 1u << rest.at();
    fence_async_shared();
    Smem boxes[4];
    State::boxes_at(smem, first.at(), rest.at(), boxes);
    for_boxes_of(p, role, p.call.final_state, 0, 4, [&](std::uint32_t i, std::uint32_t r) {
      tma_store(&p.last_state, boxes[i] + r * kTile, 32 * i, 64 * r, item.head, slots.write);
    });
    bulk_commit();
    bulk_wait_read();
    mbar_arrive(smem + State::first_empty + 8 * first.at(), chains_of(p));
    for (std::uint32_t i = 0; i < State::rest_boxes; ++i)
      mbar_arrive(smem + State::rest_empty + 8 * ((rest.at() + i) % State::rests), chains_of(p));
  });
  bulk_wait();
}

/// The warpgroup that has half wg of the state.
template <Half16 type, GateKind kind, Rule rule>
FLA_DEVICE void state_chain(const Params& p, Smem smem, std::int32_t role, std::uint32_t wg, std::uint32_t w4,
                            std::uint32_t lane) {
  using State = Stages<rule>;
  constexpr bool delta = rule == Rule::delta;
  const Schedule& schedule = p.schedule;
  const std::uint32_t tid = w4 * 32 + lane;
  const auto v_row = [&](std::uint32_t l) { return wg * 64 + w4 * 16 + (l >> 2); };
  // Computed where it is wanted: over the chunks it would take registers.
  const auto fragment = [&] { return fragment_vt(w4, kept(lane)); };
  Patience patience;
  Probe probe{smem + State::ticks + 64 * wg, tid == 0};
  probe.begin();
  std::int32_t number = 0;
  Turn<State::firsts> first;
  Turn<State::rests> rest;

  // Additive: the warpgroups multiply in turn, one while the other packs. Left alone, both would multiply at
  // the same time, each at half the rate, and then pack at the same time.
  const auto takes_turns = [&] { return !delta && halves_of(p) == 2; };
  if (takes_turns() && wg == 1) barrier_arrive(Barrier::turn, 256);

  float s[64];             // divided by 16
  std::uint32_t ways = 0;  // of the job before, then of this one
  // Over the chunks it would take a register.
  const auto job_at = [&] { return smem + State::job + 16 * wg + 4 * w4; };
  const auto job_now = [&] { return static_cast<std::int32_t>(load_u32(job_at())); };
  for (std::int32_t job = stream_of(p, role);; job = job_now() + schedule.streams) {
    if (p.segments.count > 1)
      while (job < schedule.items * p.segments.count &&
             !segment_of(p, job, item_of(p, job % schedule.by_items).chunks).there)
        job += schedule.streams;
    warp_sync();
    if (lane == 0) store(job_at(), static_cast<std::uint32_t>(job));
    warp_sync();
    // The first state comes from where the last one goes.
    std::int32_t tokens, begin, end;
    {
      const Smem stage = smem + State::first * first.at();
      Smem boxes[4];
      State::boxes_at(smem, first.at(), rest.at(), boxes);
      mbar_wait(smem + State::first_full + 8 * first.at(), first.phase(), patience);
      Turn<State::rests> opened = rest;
      for (std::uint32_t i = 0; i < State::rest_boxes; ++i, opened.next())
        mbar_wait(smem + State::rest_full + 8 * opened.at(), opened.phase(), patience);
      warp_sync();
      U4 opening{};
      if (lane == 0) opening = load_u32x4(stage + State::opening);
      tokens = uniform(opening.x), begin = uniform(opening.y), end = uniform(opening.z);
      const std::uint32_t before = ways;
      ways = uniform(opening.w);
      float next[64];
#pragma unroll
      for (int i = 0; i < 64; ++i) next[i] = 0;
      if (ways & Opening::comes) boxes_load(p.call.initial_state.key == 1, boxes, wg, w4, kept(lane), next);
      barrier(Barrier::chains, chains_of(p));  // with other axes a thread writes where another one reads
      if (before & Opening::leaves) boxes_store(p.call.final_state.key == 1, boxes, wg, w4, kept(lane), s);
      warp_sync();
      if (before & Opening::leaves) {
        if (lane == 0) mbar_arrive(smem + State::left + 8 * rest.at());
      } else {
        mbar_arrive(smem + State::first_empty + 8 * first.at());
        for (std::uint32_t i = 0; i < State::rest_boxes; ++i)
          mbar_arrive(smem + State::rest_empty + 8 * ((rest.at() + i) % State::rests));
      }
      first.next();
      rest = opened;
#pragma unroll
      for (int i = 0; i < 64; ++i) s[i] = next[i];
    }
    if (ways & Opening::closes) break;
    if (!(ways & (Opening::comes | Opening::zero))) {
      const Item item = item_of(p, job_now() % schedule.by_items);
      const Segment segment = segment_of(p, job_now(), item.chunks);
      if (segment.index == 0)
        state_load(p, slots_of(p.call, item.n).read, item.head, v_row(kept(lane)), kept(lane) & 3, s);
      else
        image_load(image_of(p, segment.item, segment.index, wg), tid, s);
    }

    probe.mark(0);
    std::uint32_t out[16];  // O^T of the chunk before, 16-bit pairs (token, token + 1)
    const auto write_o = [&](std::int32_t of) {
      const Smem tile = smem + State::o + wg * kTile + fragment();
      if (of >= 1) mbar_wait(smem + State::o_empty + 8 * wg, (of - 1) & 1, patience);
      warp_sync();
#pragma unroll
      for (int j = 0; j < 4; ++j)
        stmatrix_trans(tile + j * 2048, out[4 * j], out[4 * j + 1], out[4 * j + 2], out[4 * j + 3]);
      warp_sync();
      if (lane == 0)
        mbar_arrive(smem + State::o_full + 8 * wg);  // the proxy fence is the storing warp's: it has time
    };

    // Past the sequence's end there may be anything: zeros in the warp's columns of V.
    const auto clear_tail = [&](Smem stage, std::int32_t of) {
      if (tokens - of * kChunk >= kChunk) return;
      rarely();
      const Smem tile = stage + State::v + wg * kTile;
      for (std::uint32_t row = tokens - of * kChunk + (kept(lane) >> 1); row < kChunk; row += 16)
        store(tile + swizzled(row, 32 * w4 + 16 * (kept(lane) & 1)), U4{0, 0, 0, 0});
      warp_sync();
    };
    std::int32_t gauge = 0;  // range.cuh
    const auto finish = [&](float(&o)[32]) {
      probe.mark(7);
      mbar_arrive(smem + State::rest_empty + 8 * rest.at());
      first.next();
      rest.next();
#pragma unroll
      for (int i = 0; i < 16; ++i)
        out[i] = type == Half16::bf16 ? pack_bf16(o[2 * i], o[2 * i + 1]) : pack_f16(o[2 * i], o[2 * i + 1]);
      probe.mark(8);
    };
    std::int32_t next_look = begin + ((ways & Opening::zero) != 0 ? kLookEvery : 0);
    for (std::int32_t c = begin; c < end;) {
      if (c >= next_look) {
        settle<rule>(s, gauge);
        next_look = c + (gauge != 0 ? 1 : kLookEvery);
      }
      const std::int32_t last = next_look < end ? next_look : end;
      bool plain = true, added = false;  // added: the products have the thread's factors
      Held<float, 64> held_s;
      Held<float, 32> held_o, held_y;
      for (; c < last; ++c, ++number) {
        if constexpr (delta) {
          const Smem stage = smem + State::first * first.at(),
                     later = smem + State::rest_at + State::rest * rest.at();
          mbar_wait(smem + State::first_full + 8 * first.at(), first.phase(), patience);
          warp_sync();
          probe.mark(1);
          std::uint32_t a[32];
          const Gamma<GateKind::channel> gamma(stage + State::gamma, kept(lane) & 3);
          pack_state(s, a);
          gamma.decay(s);
          float yo[64];  // O^T's and Y^T's products
          float(&y)[32] = reinterpret_cast<float(&)[32]>(yo[32]);
          float(&o)[32] = reinterpret_cast<float(&)[32]>(yo[0]);
          keep(a);
          keep(s);
          const std::uint64_t qk = k_major(stage + State::qk);
          wgmma_fence();
#pragma unroll
          for (int kk = 0; kk < 8; ++kk)
            wgmma_rs<128, 1, 0>(yo, a + 4 * kk, qk + k_step(kk, 2 * kTile), kk > 0);
          wgmma_commit();
          probe.mark(2);
          const bool known = uniform(load_u32(stage + State::odd)) != 0 || gauge != 0;  // not to be plain
          if (c > begin) write_o(number - 1);
          mbar_wait(smem + State::rest_full + 8 * rest.at(), rest.phase(), patience);
          warp_sync();
          clear_tail(stage, c);
          probe.mark(3);
          wgmma_wait<0>();
          keep(yo);
          probe.mark(5);
          // V comes as late as it is wanted: earlier it would take registers.
          std::uint32_t v[16], ya[16];  // V^T, pairs (token, token + 1); Y^T
          std::uint32_t bits = 0;
          const Smem values = stage + State::v + wg * kTile + fragment();
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            ldmatrix_trans(v + 4 * j, values + j * 2048);
#pragma unroll
            for (int i = 4 * j; i < 4 * j + 4; ++i) {
              const F2 x = unpack<type>(v[i]);
              ya[i] = pack_f16(fma_of(x.x, 0.0625f, -y[2 * i]), fma_of(x.y, 0.0625f, -y[2 * i + 1]));
              v[i] = pack_f16(x.x, x.y);  // of f16 too: kept over the products, v would take registers
              bits |= ya[i];
            }
          }
          added = !known && (bits & kLargeFactors) == 0;
          clear_unless(added, ya, v);
          const std::uint64_t kr = mn_major(later + State::kr), b = k_major(later + State::b);
          keep(ya);
          keep(v);
          keep(s);
          keep(o);
          wgmma_fence();
#pragma unroll
          for (int kk = 0; kk < 4; ++kk) wgmma_rs<128, 1, 1>(s, ya + 4 * kk, kr + mn_step(kk), 1);
          wgmma_commit();
#pragma unroll
          for (int kk = 0; kk < 4; ++kk) wgmma_rs<64, 1, 0>(o, v + 4 * kk, b + k_step(kk), 1);
          wgmma_commit();
          probe.mark(4);
          plain = !known && are_plain(bits_of_all(bits));
          if (plain) mbar_arrive(smem + State::first_empty + 8 * first.at());
          probe.mark(6);
          wgmma_wait<0>();
          keep(s);
          keep(o);
          if (!plain) {
            held_s.take(s), held_o.take(o), held_y.take(y);
            break;
          }
          finish(o);
        } else {
          const Smem stage = smem + State::first * first.at(),
                     later = smem + State::rest_at + State::rest * rest.at();
          mbar_wait(smem + State::first_full + 8 * first.at(), first.phase(), patience);
          warp_sync();
          probe.mark(1);
          clear_tail(stage, c);
          std::uint32_t a[32], v[16];  // S^T and V^T divided by 16, pairs
          std::uint32_t bits = 0;
          const Smem values = stage + State::v + wg * kTile + fragment();
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            ldmatrix_trans(v + 4 * j, values + j * 2048);
#pragma unroll
            for (int i = 4 * j; i < 4 * j + 4; ++i) {
              if constexpr (type == Half16::f16) {
                v[i] = scale_f16(v[i], 0.0625f);
              } else {
                const F2 x = unpack<type>(v[i]);
                v[i] = pack_f16(x.x * 0.0625f, x.y * 0.0625f);
              }
              bits |= v[i];
            }
          }
          const Gamma<kind> gamma(stage + State::gamma, kept(lane) & 3);
          const bool known = uniform(load_u32(stage + State::odd)) != 0 || gauge != 0;
          pack_state(s, a);
          gamma.decay(s);
          added = !known && (bits & kLargeFactors) == 0;
          clear_unless(added, v);
          probe.mark(2);
          mbar_wait(smem + State::rest_full + 8 * rest.at(), rest.phase(), patience);
          warp_sync();
          probe.mark(3);
          float o[32];
          const std::uint64_t q = k_major(stage + State::qk), kr = mn_major(later + State::kr),
                              b = k_major(later + State::b);
          keep(a);
          keep(v);
          keep(s);
          if (takes_turns()) barrier(Barrier::turn + wg, 256);
          wgmma_fence();
#pragma unroll
          for (int kk = 0; kk < 8; ++kk) wgmma_rs<64, 1, 0>(o, a + 4 * kk, q + k_step(kk), kk > 0);
#pragma unroll
          for (int kk = 0; kk < 4; ++kk) wgmma_rs<128, 1, 1>(s, v + 4 * kk, kr + mn_step(kk), 1);
#pragma unroll
          for (int kk = 0; kk < 4; ++kk) wgmma_rs<64, 1, 0>(o, v + 4 * kk, b + k_step(kk), 1);
          wgmma_commit();
          probe.mark(4);
          plain = !known && are_plain(bits_of_all(bits));
          if (c > begin) write_o(number - 1);
          probe.mark(5);
          wgmma_wait<0>();
          if (takes_turns()) barrier_arrive(Barrier::turn + (wg ^ 1), 256);
          keep(s);
          keep(o);
          if (!plain) {
            held_s.take(s), held_o.take(o);
            break;
          }
          probe.mark(6);
          mbar_arrive(smem + State::first_empty + 8 * first.at());
          finish(o);
        }
      }
      if (plain) continue;
      rarely();
      {  // Completes a chunk that is not plain, for this warp alone. Outside of the loop, and with the state
         // through memory: otherwise ptxas moves registers of the state in every plain chunk.
        const Smem stage = smem + State::first * first.at(),
                   later = smem + State::rest_at + State::rest * rest.at();
        const OddValues<type> values{stage + State::v + wg * kTile + fragment(), stage + State::odd, true,
                                     kept(lane)};
        std::uint32_t factors[16];
        float y[32] = {}, x[64], o[32], lost[2];
        if constexpr (delta) held_y.give(y);
        const std::int32_t change = odd_y<rule>(values, y, gauge, added, factors);
        gauge += change;
        held_s.give(x);
        add_products(x, change, factors, kept(lane), RowsOfK{later + State::kr});
        if constexpr (kind == GateKind::token && !delta)
          lose_channels(stage + State::gamma, kept(lane) & 3, x);
        held_s.take(x);
        if constexpr (delta)
          odd_v(values, gauge, added, factors);
        else
          zero_lost(factors);
        held_o.give(o);
        add_products(o, change, factors, kept(lane), RowsOfN{later + State::b});
        values.find_lost(lost);
        const bool scaled = values.scaled();
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          const F2 scale = scaled ? values.scale(i >> 1, Packet::o_scale) : F2{1, 1};
          o[i] *= power(-gauge) * ((i & 1) != 0 ? scale.y : scale.x);
          if (static_cast<float>(values.token(i >> 1) + (i & 1)) >= lost[i >> 1 & 1]) o[i] = kNaN;
        }
        mbar_arrive(smem + State::first_empty + 8 * first.at());
        finish(o);
        ++c, ++number;
        next_look = c;
        held_s.give(s);
      }
    }
    if (gauge != 0) {
      rarely();
      times_power(s, -gauge);
    }
    if (end > begin) write_o(number - 1);
    if (!(ways & (Opening::leaves | Opening::skipped))) {
      const Item item = item_of(p, job_now() % schedule.by_items);
      if (segment_of(p, job_now(), item.chunks).ends)
        state_store(p, slots_of(p.call, item.n).write, item.head, v_row(kept(lane)), kept(lane) & 3, s);
    }
    probe.mark(9);
  }
  if (takes_turns() && wg == 0) barrier(Barrier::turn, 256);  // the other one's last turn
  probe.end(p.probe ? p.probe + (stream_of(p, role) * 4 + 1 + wg) * 16 : nullptr);
}

}  // namespace fla::flash_kda
