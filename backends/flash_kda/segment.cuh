#pragma once

#include "backends/flash_kda/state.cuh"

/// Few items: all segments of a chain at once. Two kernels between prep and state, packets kept:
///   part      every segment but an item's last, by itself: R = what it makes of a state of zeros (segment 0:
///             of the true first state), and for the segments from 1 on P = what it makes of the identity
///             without values. One CTA each: state's chain without O,
///                 Y = V - K~ S      S' = diag(gamma) S + K^r^T Y
///   combine   along an item's segments S_{s+1} = P_s S_s + R_s (combine.cuh)
/// Then state runs all segments of all items, each from its own first state.
///
/// Where the last chunks of a segment leave next to nothing of what was before them, R is what these make of
/// a state of zeros, and nobody needs P. A warp looks at them, from the last one back: of S a chunk leaves
///
///     (diag(gamma) - K^r^T K~) S,     at most |gamma| + sum_i |K^r_i| |K~_i| times as large as S
///
/// by norms, and these factors multiply. They are the operators that state applies, so that nothing is
/// assumed of gates and keys. With the additive rule it leaves diag(gamma) S: P has nothing else. Below 2^-24
/// the past counts for less than the state's own rounding. A past that is not finite is forgotten as well.
/// Meanwhile the segment is worked on as if its past counted.
///
///   part      warpgroup 0, a thread: K~, K^r, gamma, V -> three stages
///             a warp: the last chunks, one by one -> look -> how many of them count alone
///             warpgroups 1, 2: 64 rows of S^T each, in registers; at the end R -> its image (registers as
///             they are, f32), or P -> shared memory as wgmma's B (f16) -> transitions; of the additive rule
///             P's diagonal (f32)
namespace fla::flash_kda {

struct Part {
  static constexpr std::uint32_t threads = 384;
  static constexpr std::uint32_t stages = 3;
  static constexpr std::uint32_t kt = 0, kr = 2 * kTile, v = 4 * kTile, gamma = 6 * kTile,
                                 odd = gamma + Packet::odd - Packet::gamma, stage = gamma + 1024;
  static constexpr std::uint32_t look = stages * stage;  // as a stage; V of the last chunk alone
  static constexpr std::uint32_t transition = look;      // [2 halves][128 rows][128 bytes], in its place
  static constexpr std::uint32_t bars = look + stage;
  static constexpr std::uint32_t full = bars, empty = bars + 8 * stages;  // [stages] each
  static constexpr std::uint32_t looked_at = empty + 8 * stages;          // a chunk to look at is there
  static constexpr std::uint32_t told = looked_at + 8;                    // what was seen is
  static constexpr std::uint32_t seen = told + 8;                         // Seen
  static constexpr std::uint32_t bytes = bars + 1024;
};

inline constexpr std::int32_t kMostLooks = 4;
/// Chunks that are worked on while nobody knows whether they count.
inline constexpr std::int32_t kUnsure = 1;

/// What a look has shown.
struct Seen {
  std::int32_t last_chunks;  ///< that count alone; 0: all do
  bool holds_last;           ///< there was one look: the last chunk is still there

  FLA_DEVICE explicit Seen(Smem smem) {
    const U2 x = load_u32x2(smem + Part::seen);
    last_chunks = static_cast<std::int32_t>(x.x), holds_last = x.y != 0;
  }
};

/// What a chunk leaves of a state at most, by norms: a warp, two tokens a lane.
template <Rule rule>
FLA_DEVICE float most_left(Smem stage, std::uint32_t lane, std::uint32_t K) {
  if constexpr (rule == Rule::additive) {
    float most = 0;
    for (std::uint32_t channel = lane; channel < K; channel += 32)
      most = max_of(most, load_f32(stage + Part::gamma + 4 * channel));
    return bits_f32(largest(f32_bits(most)));
  }
  constexpr std::uint32_t kTokens[2] = {0, 32 * kTileRow}, kOperators[2] = {Part::kt, Part::kr};
  float squares[2][2] = {};  // of a token's K~ and K^r
#pragma unroll 1
  for (std::uint32_t i = 0; i < 16; ++i) {  // lanes begin in different banks
    const Smem at = stage + lane * kTileRow + (i >> 3) * kTile + ((16 * i ^ 16 * lane) & 127);
#pragma unroll
    for (int token = 0; token < 2; ++token) {
#pragma unroll
      for (int which = 0; which < 2; ++which) {
        const U4 x = load_u32x4(at + kTokens[token] + kOperators[which]);
        float& square = squares[token][which];
        for (const std::uint32_t pair : {x.x, x.y, x.z, x.w}) {
          const F2 y = unpack_f16(pair);
          square = fma_of(y.x, y.x, fma_of(y.y, y.y, square));
        }
      }
    }
  }
  float sum = 0, square = 0;
  for (const auto& token : squares) sum += sqrt_of(token[0] * token[1]);
  for (std::uint32_t channel = lane; channel < K; channel += 32) {
    const float gamma = load_f32(stage + Part::gamma + 4 * channel);
    square = fma_of(gamma, gamma, square);
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    sum += shuffle_xor(sum, lanes);
    square += shuffle_xor(square, lanes);
  }
  return sum + sqrt_of(square);
}

/// Parts of a launch: for every segment but the last R, then for those from 1 on P.
FLA_BOTH constexpr std::int32_t parts_of(std::int32_t items, std::int32_t segments) {
  return items * (2 * segments - 3);
}

/// What a CTA has to do.
struct PartJob {
  bool values;  ///< R, not P
  Item item;
  Segment segment;
  bool needed, may_forget;
  std::int32_t unsure;  ///< where chunks begin that are worked on when it is known whether they count

  FLA_DEVICE explicit PartJob(const Params& p) {
    const std::int32_t items = p.schedule.items, offsets = items * (p.segments.count - 1);
    values = std::int32_t(block()) < offsets;
    const std::int32_t job = values ? block() : block() - offsets + items;
    item = item_of(p, job % items);
    segment = segment_of(p, job, item.chunks);
    needed = segment.there && !segment.ends;
    may_forget = needed && p.looks;
    unsure = !may_forget || segment.last - segment.first < kUnsure ? segment.last : segment.first + kUnsure;
  }
};

template <Rule rule>
FLA_DEVICE void part_load(const Params& p, const PartJob& job, std::int32_t c, bool with_values, Smem stage,
                          Smem bar) {
  constexpr bool delta = rule == Rule::delta;
  const bool with_keys = delta || with_values;  // the additive rule's P is made of gamma alone
  const std::uint8_t* const from =
      p.schedule.packets + packet_of(p.schedule, job.segment.item, c, 0) * Packet::bytes;
  mbar_expect(bar, ((delta ? 2 : 0) + (with_keys ? 2 : 0) + (with_values ? 2 : 0)) * kTile + Packet::tail);
  if constexpr (delta) bulk_load(stage + Part::kt, from + Packet::kt, 2 * kTile, bar);
  if (with_keys) bulk_load(stage + Part::kr, from + Packet::kr, 2 * kTile, bar);
  bulk_load(stage + Part::gamma, from + Packet::gamma, Packet::tail, bar);
  if (!with_values) return;
  for (int h = 0; h < 2; ++h)
    tma_load(stage + Part::v + h * kTile, &p.v, bar, 64 * h, job.item.head, job.item.begin + c * kChunk,
             job.item.batch);
}

/// A thread.
template <Rule rule>
FLA_DEVICE void part_loads(const Params& p, const PartJob& job, Smem smem) {
  Patience patience;
  const std::int32_t last = job.segment.last;
  if (job.may_forget)
    part_load<rule>(p, job, last - 1, job.values, smem + Part::look, smem + Part::looked_at);
  Turn<Part::stages> turn;
  std::int32_t c = job.segment.first, loads = 0;
  const auto load_next = [&] {
    if (loads++ >= std::int32_t(Part::stages))
      mbar_wait(smem + Part::empty + 8 * turn.at(), turn.phase() ^ 1, patience);
    part_load<rule>(p, job, c++, job.values, smem + turn.at() * Part::stage,
                    smem + Part::full + 8 * turn.at());
    turn.next();
  };
  while (c < job.unsure) load_next();
  if (!job.may_forget) return;
  mbar_wait(smem + Part::told, 0, patience);
  const Seen seen(smem);
  if (seen.last_chunks > 0) c = job.values ? last - seen.last_chunks : last;
  while (c < last - (seen.holds_last ? 1 : 0)) load_next();
}

/// A warp.
template <Rule rule>
FLA_DEVICE void part_looks(const Params& p, const PartJob& job, Smem smem, std::uint32_t lane) {
  Patience patience;
  const Smem look = smem + Part::look, looked_at = smem + Part::looked_at;
  const Segment& segment = job.segment;
  float left = 1;
  std::int32_t looks = 0;
  do {
    if (looks > 0 && lane == 0) part_load<rule>(p, job, segment.last - 1 - looks, false, look, looked_at);
    mbar_wait(looked_at, looks & 1, patience);
    // Of a chunk that is odd K~ and K^r are not all.
    left *= load_u32(look + Part::odd) != 0 ? kNaN : most_left<rule>(look, lane, p.call.K);
    warp_sync();
  } while (++looks < kMostLooks && segment.last - looks > segment.first && left >= 0x1p-24f &&
           left < 0x1p-6f);
  if (lane == 0) {
    store(smem + Part::seen, U2{left < 0x1p-24f ? std::uint32_t(looks) : 0u, looks == 1 ? 1u : 0u});
    mbar_arrive(smem + Part::told);
  }
}

/// A warpgroup.
template <Half16 type, Rule rule>
FLA_DEVICE void part_chain(const Params& p, const PartJob& job, Smem smem, std::uint32_t wg, std::uint32_t w4,
                           std::uint32_t lane) {
  constexpr bool delta = rule == Rule::delta;
  Patience patience;
  const Smem full = smem + Part::full, empty = smem + Part::empty, look = smem + Part::look,
             looked_at = smem + Part::looked_at, told = smem + Part::told;
  const bool values = job.values;
  const Item& item = job.item;
  const Segment& segment = job.segment;
  const std::uint32_t t = lane & 3, local = w4 * 32 + lane;
  const std::uint32_t row = wg * 64 + w4 * 16 + (lane >> 2), fragment = fragment_vt(w4, lane);
  float s[64];  // divided by 16
  if (!values) {
#pragma unroll
    for (int i = 0; i < 64; ++i)
      s[i] = row + 8 * ((i >> 1) & 1) == 8 * (i >> 2) + 2 * t + (i & 1) ? 0.0625f : 0.0f;
  } else if (segment.index == 0) {
    state_load(p, slots_of(p.call, item.n).read, item.head, row, t, s);
  } else {
#pragma unroll
    for (int i = 0; i < 64; ++i) s[i] = 0;
  }

  std::int32_t gauge = 0;  // range.cuh
  Turn<Part::stages> turn;
  std::int32_t looked = -1;  // the chunk that is where it was looked at
  const auto stage_of = [&](std::int32_t c) { return c == looked ? look : smem + turn.at() * Part::stage; };
  const auto leave = [&](std::int32_t c) {
    if (c == looked) return;
    mbar_arrive(empty + 8 * turn.at());
    turn.next();
  };
  // P begins as the identity, and stays near it; R of a segment from 1 on begins as zero.
  std::int32_t next_look = segment.first + (segment.index == 0 ? 0 : kLookEvery);
  std::int32_t c = segment.first, end = job.unsure;
  if (!job.may_forget && values && wg == 0 && local == 0) *forgotten_of(p, segment.item, segment.index) = 0;
  for (bool sure = !job.may_forget;; sure = true, end = segment.last) {
    while (c < end) {
      if (c >= next_look) {
        if (values) settle<rule>(s, gauge);
        next_look = c + (gauge != 0 ? 1 : kLookEvery);
      }
      const std::int32_t last = next_look < end ? next_look : end;
      bool plain = true, added = false;
      Held<float, 64> held_s;
      Held<float, 32> held_y;
      for (; c < last; ++c) {
        const Smem stage = stage_of(c);
        if (c != looked) mbar_wait(full + 8 * turn.at(), turn.phase(), patience);
        warp_sync();
        std::uint32_t a[32], v[16], ya[16];
        F2 gamma[16];
        load_gamma(stage + Part::gamma, t, gamma);
        if constexpr (delta) pack_state(s, a);
        decay(s, gamma);
        if (!delta && !values) {
          leave(c);
          continue;
        }
        float y[32];
        if constexpr (delta) {
          const std::uint64_t kt = k_major(stage + Part::kt);
          keep(a);
          keep(s);
          wgmma_fence();
#pragma unroll
          for (int kk = 0; kk < 8; ++kk) wgmma_rs<64, 1, 0>(y, a + 4 * kk, kt + k_step(kk), kk > 0);
          wgmma_commit();
        }
        // What is not looked at: padding, which is zero, and P.
        std::uint32_t bits = !values || 64 * wg >= std::uint32_t(p.call.V) ? kFactors : 0;
        const bool known = load_u32(stage + Part::odd) != 0 || gauge != 0;  // not to be plain
        if (values) {
#pragma unroll
          for (int j = 0; j < 4; ++j)
            ldmatrix_trans(v + 4 * j, stage + Part::v + wg * kTile + fragment + j * 2048);
        } else {
#pragma unroll
          for (int i = 0; i < 16; ++i) v[i] = 0;
        }
        if constexpr (delta) {
          wgmma_wait<0>();
          keep(y);
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const F2 x = unpack<type>(v[i]);
          ya[i] = delta ? pack_f16(fma_of(x.x, 0.0625f, -y[2 * i]), fma_of(x.y, 0.0625f, -y[2 * i + 1]))
                        : pack_f16(x.x * 0.0625f, x.y * 0.0625f);
          bits |= ya[i];
        }
        added = !known && (bits & kLargeFactors) == 0;
        clear_unless(added, ya);
        const std::uint64_t kr = mn_major(stage + Part::kr);
        keep(ya);
        keep(s);
        wgmma_fence();
#pragma unroll
        for (int kk = 0; kk < 4; ++kk) wgmma_rs<128, 1, 1>(s, ya + 4 * kk, kr + mn_step(kk), 1);
        wgmma_commit();
        plain = !known && are_plain(bits_of_all(bits));
        wgmma_wait<0>();
        keep(s);
        if (!plain) {
          held_s.take(s);
          if constexpr (delta) held_y.take(y);
          break;
        }
        leave(c);
      }
      if (plain) continue;
      rarely();
      const Smem stage = stage_of(c);
      const OddValues<type> odd_values{stage + Part::v + wg * kTile + fragment, stage + Part::odd, values,
                                       lane};
      std::uint32_t ya[16];
      float y[32] = {}, x[64];
      if constexpr (delta) held_y.give(y);
      const std::int32_t change = odd_y<rule>(odd_values, y, gauge, added, ya);
      gauge += change;
      held_s.give(x);
      add_products(x, change, ya, lane, RowsOfK{stage + Part::kr});
      held_s.take(x);
      leave(c);
      held_s.give(s);
      next_look = ++c;
    }
    if (sure) break;
    mbar_wait(told, 0, patience);
    const Seen seen(smem);
    const bool forgotten = seen.last_chunks > 0;
    if (values && wg == 0 && local == 0) *forgotten_of(p, segment.item, segment.index) = forgotten ? 1 : 0;
    if (seen.holds_last && (!forgotten || values)) {
      mbar_wait(looked_at, 0, patience);
      looked = segment.last - 1;
    }
    if (!forgotten) continue;
    if (!values) return;
    c = segment.last - seen.last_chunks;
    next_look = c + kLookEvery;
    gauge = 0;
#pragma unroll
    for (int i = 0; i < 64; ++i) s[i] = 0;
  }
  if (gauge != 0) {
    rarely();
    times_power(s, -gauge);
  }
  if (values) {
    image_store(image_of(p, segment.item, segment.index + 1, wg), local, s);
  } else if constexpr (!delta) {
    auto* const diagonal = reinterpret_cast<float*>(transition_of(p, segment.item, segment.index));
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t key = 8 * (i >> 2) + 2 * t + (i & 1);
      if (row + 8 * ((i >> 1) & 1) == key) diagonal[key] = 16 * s[i];
    }
  } else {
    barrier(Barrier::chains, 256);  // nobody reads the last chunk
    const Smem tile = smem + Part::transition + wg * 2 * kTile;
#pragma unroll
    for (int j = 0; j < 8; ++j)
      stmatrix_trans(tile + fragment + j * 2048, pack_f16(16 * s[8 * j], 16 * s[8 * j + 1]),
                     pack_f16(16 * s[8 * j + 2], 16 * s[8 * j + 3]),
                     pack_f16(16 * s[8 * j + 4], 16 * s[8 * j + 5]),
                     pack_f16(16 * s[8 * j + 6], 16 * s[8 * j + 7]));
    fence_async_shared();
    barrier(Barrier::transition + wg, 128);
    if (local == 0) {
      bulk_store(transition_of(p, segment.item, segment.index) + wg * 2 * kTile, tile, 2 * kTile);
      bulk_commit();
      bulk_wait();
    }
  }
}

template <Half16 type, Rule rule>
FLA_DEVICE void part(const Params& p, Smem smem) {
  const std::uint32_t tid = thread(), warp = uniform(tid >> 5), lane = tid & 31;
  let_next_kernel_come();
  if (tid == 0) {
    for (std::uint32_t i = 0; i < Part::stages; ++i) {
      mbar_init(smem + Part::full + 8 * i, 1);
      mbar_init(smem + Part::empty + 8 * i, 256);  // all lanes of the chain
    }
    mbar_init(smem + Part::looked_at, 1);
    mbar_init(smem + Part::told, 1);
    mbar_init_fence();
    prefetch(&p.v);
  }
  barrier(Barrier::cta, Part::threads);
  wait_for_kernel_before();
  const PartJob job(p);
  if (warp < 4) {
    registers_down<40>();
    if (tid == 0 && job.needed) part_loads<rule>(p, job, smem);
    if (warp == 1 && job.may_forget) part_looks<rule>(p, job, smem, lane);
  } else {
    registers_up<224>();
    if (job.needed) part_chain<type, rule>(p, job, smem, (warp >> 2) - 1, warp & 3, lane);
  }
}

#ifdef __CUDACC__
template <Half16 type, Rule rule>
__global__ void __launch_bounds__(Part::threads, 1) part_kernel(const __grid_constant__ Params p) {
  extern __shared__ std::uint8_t shared[];
  part<type, rule>(p, (static_cast<Smem>(__cvta_generic_to_shared(shared)) + 1023) & ~1023u);
}
#endif

}  // namespace fla::flash_kda
