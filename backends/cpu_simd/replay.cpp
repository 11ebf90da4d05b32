// A step over rings: the state is read and, where no ring is folded, not written.
//
//   entries     what is in the ring and not in the state: keys [K], brought to the frame of the token at hand
//               by the decays since, and rows [V] of what has gone with them; with rank 2 (step-inl.h) two a
//               token, k with v and b with u
//
//   G = decays of the ring's tokens       p = (x G)^T S + sum (x . key) row       r = (d q G)^T S + sum ...
//
// So u and o of a token come from step_read with x and d q times G, and both take in the entries' rows, each
// times a number: u += a row, o += b row. The tokens of a step become entries themselves. Decays are
// multiplied, never divided by: any gate will do.

#include "backends/cpu_simd/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu_simd/replay.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu_simd/carver.h"
#include "backends/cpu_simd/denormals.h"
#include "backends/cpu_simd/kernels.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "backends/cpu_simd/inputs-inl.h"
#include "backends/cpu_simd/read-inl.h"
#include "backends/cpu_simd/step-inl.h"
#include "backends/cpu_simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr int kMostPlaces = 32, kMostTokens = kMostPlaces / 2;
constexpr int kMostEntries = 2 * kMostPlaces;
constexpr int kFoldVectors = kTileRows;  // of columns that are folded together

struct ReplayWorkspace {
  std::size_t channels, columns;
  float* decay;                     // G
  float* keys;                      // [kMostEntries][channels]
  const float* rows[kMostEntries];  // of what has gone with them
  int entries = 0;
  // Of each token.
  int before[kMostTokens];  // how many of the entries were there
  float a[kMostTokens][kMostEntries], b[kMostTokens][kMostEntries];
  float key_factor[kMostTokens], divisors[kMostTokens];
  Step steps[kMostTokens];
  const float* v[kMostTokens];
  float *u[kMostTokens], *o[kMostTokens];
  float *q_buffer, *k_buffer, *g_buffer, *a_buffer, *b_buffer, *bias, *key_sum;
  float *u_buffer, *v_buffer, *o_buffer;

  ReplayWorkspace(Carver& carver, std::size_t K, std::size_t V)
      : channels(round_up(K, kLanes)), columns(round_up(V, kLanes)) {
    for (Step& each : steps) {
      for (float** vector : {&each.decay, &each.key, &each.probe, &each.decayed_q, &each.b})
        *vector = carver.take(channels);
    }
    keys = carver.take(kMostEntries * channels);
    for (float** vector : {&decay, &q_buffer, &k_buffer, &g_buffer, &a_buffer, &b_buffer, &bias, &key_sum})
      *vector = carver.take(channels);
    for (float** buffer : {&u_buffer, &v_buffer, &o_buffer}) *buffer = carver.take(kMostTokens * columns);
  }

  float* key(int entry) const { return keys + static_cast<std::size_t>(entry) * channels; }
};

std::size_t replay_scratch(std::int64_t K, std::int64_t V) {
  Carver carver(nullptr);
  ReplayWorkspace(carver, static_cast<std::size_t>(K), static_cast<std::size_t>(V));
  return carver.used();
}

// The head of a sequence, and of its slot's ring, whose tokens are places.
struct RingHead {
  Head tokens, ring;
  Ring places;
  Head::Input ring_b, ring_w;
};

HWY_INLINE std::byte* first_place(const common::Rows& rows, std::int64_t slot, std::int64_t head) {
  const auto size = static_cast<std::int64_t>(size_of(rows.dtype));
  return static_cast<std::byte*>(rows.data) + (slot * rows.batch + head * rows.head) * size;
}

HWY_INLINE Head::Input places_of(const common::Rows& rows, std::int64_t slot, std::int64_t head) {
  if (!rows.data) return {};
  return {first_place(rows, slot, head),
          static_cast<std::ptrdiff_t>(rows.token * static_cast<std::int64_t>(size_of(rows.dtype))),
          rows.dtype};
}

inline const CallExtras kNoExtras{};

HWY_INLINE RingHead ring_head(const ReplayCall& replay, const CallExtras& extras, std::int64_t sequence,
                              std::int64_t value_head) {
  RingHead head;
  head.tokens = head_of(replay.call, extras, sequence, value_head);
  head.places = ring_of(replay, sequence);
  head.tokens.skipped = head.places.slot < 0;
  if (head.tokens.skipped) return head;
  const std::int64_t slot = head.places.slot, key_head = value_head / replay.call.group;
  head.ring = head_of(replay.ring, kNoExtras, slot, value_head);
  head.ring_b = places_of(replay.ring_b, slot, key_head);
  head.ring_w = places_of(replay.ring_w, slot, value_head);
  return head;
}

// ---- entries

HWY_INLINE void scale_row(DF d, const float* HWY_RESTRICT from, const float* HWY_RESTRICT by,
                          std::size_t count, float* HWY_RESTRICT to) {
  for (std::size_t c = 0; c < count; c += kLanes)
    hn::Store(hn::Mul(hn::LoadU(d, from + c), hn::Load(d, by + c)), d, to + c);
}

HWY_INLINE void scale_in_place(DF d, const float* HWY_RESTRICT by, std::size_t count,
                               float* HWY_RESTRICT row) {
  for (std::size_t c = 0; c < count; c += kLanes)
    hn::Store(hn::Mul(hn::Load(d, row + c), hn::Load(d, by + c)), d, row + c);
}

// G times the decays of a gate row, in place.
HWY_INLINE void take_decays(DF d, const float* HWY_RESTRICT g, float unit, std::size_t count,
                            float* HWY_RESTRICT decay) {
  const VF units = hn::Set(d, unit);
  std::size_t c = 0;
  for (; c + 4 * kLanes <= count; c += 4 * kLanes) {
    VF x[4];
    FLA_UNROLL for (int i = 0; i < 4; ++i) x[i] = hn::Mul(hn::LoadU(d, g + c + i * kLanes), units);
    exp2<4>(d, x);
    FLA_UNROLL for (int i = 0; i < 4; ++i) {
      float* const at = decay + c + i * kLanes;
      hn::Store(hn::Mul(hn::Load(d, at), x[i]), d, at);
    }
  }
  for (; c < count; c += kLanes)
    hn::Store(hn::Mul(hn::Load(d, decay + c), exp2(d, hn::Mul(hn::LoadU(d, g + c), units))), d, decay + c);
}

// Makes entries of the ring's tokens, in the frame of the last one, and G; the newest token first.
template <int kRank>
HWY_NOINLINE void take_ring(DF d, const ReplayCall& replay, const RingHead& head, ReplayWorkspace& w) {
  const std::size_t K = static_cast<std::size_t>(replay.call.K);
  const TokenReader reader{replay.ring, head.ring, K, w.channels, bias_row(head.ring, K, w.channels, w.bias)};
  const bool fixed = head.ring.gates == 0 && replay.call.gate_kind == GateKind::none;
  for (std::size_t c = 0; c < w.channels; c += kLanes) hn::Store(hn::Set(d, 1.f), d, w.decay + c);
  w.entries = 0;
  for (int i = head.places.count; i-- > 0;) {
    const std::int64_t place = head.places.place(i);
    scale_row(d, reader.k_row(place, w.k_buffer), w.decay, w.channels, w.key(w.entries));
    w.rows[w.entries++] = reinterpret_cast<const float*>(head.ring.v.at(place));
    if constexpr (kRank == 2) {
      scale_row(d, as_floats(head.ring_b.at(place), head.ring_b.dtype, K, w.channels, w.b_buffer), w.decay,
                w.channels, w.key(w.entries));
      w.rows[w.entries++] = reinterpret_cast<const float*>(head.ring_w.at(place));
    }
    if (!fixed)
      take_decays(d, reader.gate_row(place, w.g_buffer, w.channels), reader.gate_unit(), w.channels, w.decay);
  }
}

HWY_INLINE void two_products(DF d, const float* HWY_RESTRICT x, const float* HWY_RESTRICT y,
                             const float* HWY_RESTRICT key, std::size_t count, float& xk, float& yk) {
  VF p = hn::Zero(d), r = hn::Zero(d);
  for (std::size_t c = 0; c < count; c += kLanes) {
    const VF k = hn::Load(d, key + c);
    p = hn::MulAdd(hn::Load(d, x + c), k, p);
    r = hn::MulAdd(hn::Load(d, y + c), k, r);
  }
  xk = sum_lanes(d, p), yk = sum_lanes(d, r);
}

// What token t takes of each entry's row, and its vectors in the frame of the state. Then the token is an
// entry, and entries are in its frame.
template <int kRank>
HWY_NOINLINE void take_token(DF d, int t, bool is_last, ReplayWorkspace& w) {
  Step& step = w.steps[t];
  w.before[t] = w.entries;
  for (int e = 0; e < w.entries; ++e) {
    float n, m;
    two_products(d, step.probe, step.decayed_q, w.key(e), w.channels, n, m);
    w.a[t][e] = kRank == 1 ? -step.beta * n : n;
    w.b[t][e] = m + (kRank == 1 ? step.qk : step.qb) * w.a[t][e];
  }
  scale_in_place(d, w.decay, w.channels, step.probe);
  scale_in_place(d, w.decay, w.channels, step.decayed_q);
  if (is_last) return;
  scale_in_place(d, step.decay, w.channels, w.decay);
  for (int e = 0; e < w.entries; ++e) scale_in_place(d, step.decay, w.channels, w.key(e));
  std::memcpy(w.key(w.entries), step.key, w.channels * sizeof(float));
  w.rows[w.entries++] = kRank == 1 ? w.u[t] : w.v[t];
  if constexpr (kRank == 2) {
    std::memcpy(w.key(w.entries), step.b, w.channels * sizeof(float));
    w.rows[w.entries++] = w.u[t];
  }
}

// u and o of columns [first, last) take in the rows of entries.
HWY_INLINE void add_entries(DF d, const ReplayWorkspace& w, int t, std::size_t first, std::size_t last) {
  const int count = w.before[t];
  const float *a = w.a[t], *b = w.b[t];
  float *const u = w.u[t], *const o = w.o[t];
  std::size_t c = first;
  for (; c + 2 * kLanes <= last; c += 2 * kLanes) {
    VF u0 = hn::LoadU(d, u + c), u1 = hn::LoadU(d, u + c + kLanes);
    VF o0 = hn::LoadU(d, o + c), o1 = hn::LoadU(d, o + c + kLanes);
    for (int e = 0; e < count; ++e) {
      const VF x = hn::LoadU(d, w.rows[e] + c), y = hn::LoadU(d, w.rows[e] + c + kLanes);
      const VF ae = hn::Set(d, a[e]), be = hn::Set(d, b[e]);
      u0 = hn::MulAdd(ae, x, u0), u1 = hn::MulAdd(ae, y, u1);
      o0 = hn::MulAdd(be, x, o0), o1 = hn::MulAdd(be, y, o1);
    }
    hn::StoreU(u0, d, u + c), hn::StoreU(u1, d, u + c + kLanes);
    hn::StoreU(o0, d, o + c), hn::StoreU(o1, d, o + c + kLanes);
  }
  while (c < last) {
    const std::size_t here = std::min<std::size_t>(kLanes, last - c);
    VF u0 = load_first(d, u + c, here), o0 = load_first(d, o + c, here);
    for (int e = 0; e < count; ++e) {
      const VF x = load_first(d, w.rows[e] + c, here);
      u0 = hn::MulAdd(hn::Set(d, a[e]), x, u0);
      o0 = hn::MulAdd(hn::Set(d, b[e]), x, o0);
    }
    store_first(u0, d, u + c, here);
    store_first(o0, d, o + c, here);
    c += here;
  }
}

// ---- folds: S = G S + sum key row^T, of columns [first, last)

// kVectors vectors of columns of a state [K, V], two rows at a time: rows of entries are read for both.
template <int kVectors>
HWY_INLINE void fold_columns(DF d, const ReplayWorkspace& w, float* state, std::size_t V, std::size_t K,
                             std::size_t column) {
  const auto fold_rows = [&]<int kRows>(std::integral_constant<int, kRows>, std::size_t k) HWY_ATTR {
    VF s[kRows][kVectors];
    FLA_UNROLL for (int i = 0; i < kRows; ++i) {
      const float* const from = state + (k + static_cast<std::size_t>(i)) * V + column;
      const VF decay = hn::Set(d, w.decay[k + static_cast<std::size_t>(i)]);
      FLA_UNROLL for (int n = 0; n < kVectors; ++n) s[i][n] = hn::Mul(decay, hn::LoadU(d, from + n * kLanes));
    }
    for (int e = 0; e < w.entries; ++e) {
      const float *const row = w.rows[e] + column, *const key = w.key(e) + k;
      VF keys[kRows];
      FLA_UNROLL for (int i = 0; i < kRows; ++i) keys[i] = hn::Set(d, key[i]);
      FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
        const VF x = hn::LoadU(d, row + n * kLanes);
        FLA_UNROLL for (int i = 0; i < kRows; ++i) s[i][n] = hn::MulAdd(keys[i], x, s[i][n]);
      }
    }
    FLA_UNROLL for (int i = 0; i < kRows; ++i) {
      float* const to = state + (k + static_cast<std::size_t>(i)) * V + column;
      FLA_UNROLL for (int n = 0; n < kVectors; ++n) hn::StoreU(s[i][n], d, to + n * kLanes);
    }
  };
  std::size_t k = 0;
  for (; k + 2 <= K; k += 2) fold_rows(std::integral_constant<int, 2>{}, k);
  if (k < K) fold_rows(std::integral_constant<int, 1>{}, k);
}

HWY_NOINLINE void fold_k_first(DF d, const ReplayWorkspace& w, float* state, std::size_t V, std::size_t K,
                               std::size_t first, std::size_t last) {
  std::size_t c = first;
  for (; c + kFoldVectors * kLanes <= last; c += kFoldVectors * kLanes)
    fold_columns<kFoldVectors>(d, w, state, V, K, c);
  for (; c + kLanes <= last; c += kLanes) fold_columns<1>(d, w, state, V, K, c);
  for (std::size_t k = 0; k < K && c < last; ++k) {
    VF s = hn::Mul(hn::Set(d, w.decay[k]), load_first(d, state + k * V + c, last - c));
    for (int e = 0; e < w.entries; ++e)
      s = hn::MulAdd(hn::Set(d, w.key(e)[k]), load_first(d, w.rows[e] + c, last - c), s);
    store_first(s, d, state + k * V + c, last - c);
  }
}

HWY_NOINLINE void fold_v_first(DF d, const ReplayWorkspace& w, float* state, std::size_t K, std::size_t first,
                               std::size_t last) {
  for (std::size_t j = first; j < last; ++j) {
    float* const row = state + j * K;
    for (std::size_t k = 0; k < K; k += kLanes) {
      const std::size_t here = std::min<std::size_t>(kLanes, K - k);
      VF s = hn::Mul(hn::Load(d, w.decay + k), load_first(d, row + k, here));
      for (int e = 0; e < w.entries; ++e)
        s = hn::MulAdd(hn::Load(d, w.key(e) + k), hn::Set(d, w.rows[e][j]), s);
      store_first(s, d, row + k, here);
    }
  }
}

// ---- steps

// The last columns of a state [K, V], fewer than a vector.
template <int kRank>
HWY_INLINE void read_tail(DF d, const Step& step, const float* state, std::size_t V, std::size_t K,
                          std::size_t present, const float* v, float* u, float* o) {
  VF p = hn::Zero(d), r = hn::Zero(d);
  for (std::size_t k = 0; k < K; ++k) {
    const VF s = load_first(d, state + k * V, present);
    p = hn::MulAdd(s, hn::Set(d, step.probe[k]), p);
    r = hn::MulAdd(s, hn::Set(d, step.decayed_q[k]), r);
  }
  const VF vs = load_first(d, v, present), us = u_of<kRank>(d, step, p, step.weight, vs);
  store_first(us, d, u, present);
  store_first(output_of<kRank>(d, step, r, us, vs), d, o, present);
}

template <int kRank>
HWY_NOINLINE void read_k_first(DF d, const ReplayWorkspace& w, int tokens, const float* state, std::size_t V,
                               std::size_t K, std::size_t first, std::size_t last, Ahead& ahead) {
  const auto block = [&]<int kVectors>(std::integral_constant<int, kVectors>, std::size_t c) HWY_ATTR {
    for (int t = 0; t < tokens; ++t) {
      step_read<kRank, kVectors, true>(d, w.steps[t], state + c, V, K, w.v[t] + c, w.steps[t].weight,
                                       w.u[t] + c, w.o[t] + c, ahead);
      add_entries(d, w, t, c, c + kVectors * kLanes);
    }
  };
  std::size_t c = first;
  for (; c + kReadVectors * kLanes <= last; c += kReadVectors * kLanes)
    block(std::integral_constant<int, kReadVectors>{}, c);
  for (; c + kLanes <= last; c += kLanes) block(std::integral_constant<int, 1>{}, c);
  for (int t = 0; t < tokens && c < last; ++t) {
    read_tail<kRank>(d, w.steps[t], state + c, V, K, last - c, w.v[t] + c, w.u[t] + c, w.o[t] + c);
    add_entries(d, w, t, c, last);
  }
}

template <int kRank>
HWY_NOINLINE void read_v_first(DF d, const ReplayWorkspace& w, int tokens, const float* state, std::size_t K,
                               std::size_t first, std::size_t last, Ahead& ahead) {
  HWY_ALIGN float u[4];
  for (std::size_t row = first; row < last; row += 4) {
    const std::size_t present = std::min<std::size_t>(4, last - row);
    for (int t = 0; t < tokens; ++t) {
      read_rows<kRank>(d, w.steps[t], state + row * K, K, present, w.v[t] + row, u, w.o[t] + row, ahead);
      std::memcpy(w.u[t] + row, u, present * sizeof(float));
      add_entries(d, w, t, row, row + present);
    }
  }
}

// What the tokens' rows become.
template <int kRank>
HWY_INLINE void take_tokens(DF d, const RecurrenceCall& call, const Head& head, ReplayWorkspace& w) {
  const std::size_t K = static_cast<std::size_t>(call.K), V = static_cast<std::size_t>(call.V);
  const int tokens = static_cast<int>(call.T);
  HWY_ALIGN_MAX float beta[HWY_MAX(kMostTokens, kLanes)] = {};
  const TokenReader reader{call, head, K, w.channels, bias_row(head, K, w.channels, w.bias)};
  if (call.rule == Rule::delta) reader.betas(0, static_cast<std::size_t>(tokens), beta);
  if (call.normalize) std::memset(w.key_sum, 0, w.channels * sizeof(float));
  for (int t = 0; t < tokens; ++t) {
    const float *q = reader.q_row(t, w.q_buffer), *k = reader.k_row(t, w.k_buffer);
    const float q_factor = reader.norm_factor(q) * call.scale;
    w.key_factor[t] = reader.norm_factor(k);
    prepare_step(d, call.rule, q, k, reader.gate_row(t, w.g_buffer, w.channels), reader.gate_unit(), q_factor,
                 w.key_factor[t], beta[t], w.channels, w.steps[t]);
    if (call.normalize) w.divisors[t] = divisor_of(d, q, k, q_factor, w.key_factor[t], w.channels, w.key_sum);
    if constexpr (kRank == 2) {
      prepare_pair(d, q, q_factor, as_floats(head.a.at(t), head.a.dtype, K, w.channels, w.a_buffer),
                   as_floats(head.b.at(t), head.b.dtype, K, w.channels, w.b_buffer), w.channels, w.steps[t]);
    }
    const std::size_t at = static_cast<std::size_t>(t) * w.columns;
    w.v[t] = as_floats(head.v.at(t), head.v.dtype, V, V, w.v_buffer + at);
    w.u[t] = w.u_buffer + at, w.o[t] = w.o_buffer + at;
    take_token<kRank>(d, t, t + 1 == tokens, w);
  }
}

HWY_INLINE void append_row(const Head::Input& from, int t, const Head::Input& to, std::int64_t place,
                           std::size_t count) {
  std::byte* const target = const_cast<std::byte*>(to.at(place));
  std::memcpy(target, from.at(t), count * size_of(from.dtype));
}

template <int kRank>
HWY_INLINE void append_tokens(DF d, const RecurrenceCall& call, const RingHead& head, bool is_first_part,
                              std::size_t first, std::size_t last, const ReplayWorkspace& w) {
  const std::size_t K = static_cast<std::size_t>(call.K), count = (last - first) * sizeof(float);
  const Head &tokens = head.tokens, &ring = head.ring;
  for (int t = 0; t < static_cast<int>(call.T); ++t) {
    const std::int64_t place = head.places.place(head.places.count + t);
    if (is_first_part) {
      if (tokens.value_head % call.group == 0) {
        append_row(tokens.k, t, ring.k, place, K);
        if constexpr (kRank == 2) append_row(tokens.b, t, head.ring_b, place, K);
      }
      if (tokens.gates > 0 && call.gate_kind != GateKind::head)
        append_row(tokens.g, t, ring.g, place, tokens.gates);
    }
    const auto target = [&](const Head::Input& rows) {
      return reinterpret_cast<float*>(const_cast<std::byte*>(rows.at(place))) + first;
    };
    if constexpr (kRank == 2) {
      std::memcpy(target(ring.v), w.v[t] + first, count);
      std::memcpy(target(head.ring_w), w.u[t] + first, count);
    } else {
      float* const to = target(ring.v);
      const VF factor = hn::Set(d, w.key_factor[t]);
      std::size_t c = 0;
      for (; c + kLanes <= last - first; c += kLanes)
        hn::StoreU(hn::Mul(hn::LoadU(d, w.u[t] + first + c), factor), d, to + c);
      if (const std::size_t rest = last - first - c; rest > 0)
        store_first(hn::Mul(load_first(d, w.u[t] + first + c, rest), factor), d, to + c, rest);
    }
  }
}

template <int kRank>
HWY_NOINLINE void replay_head(DF d, const ReplayCall& replay, const RingHead& head, bool is_first_part,
                              std::size_t first, std::size_t last, ReplayWorkspace& w, Ahead& ahead) {
  const RecurrenceCall& call = replay.call;
  const std::size_t K = static_cast<std::size_t>(call.K), V = static_cast<std::size_t>(call.V);
  const int tokens = static_cast<int>(call.T);
  float* const state = state_of(call.final_state, head.places.slot, head.tokens.value_head);
  take_ring<kRank>(d, replay, head, w);
  if (head.places.fold) {
    if (call.state_v_first) {
      fold_v_first(d, w, state, K, first, last);
    } else {
      fold_k_first(d, w, state, V, K, first, last);
    }
    w.entries = 0;
    for (std::size_t c = 0; c < w.channels; c += kLanes) hn::Store(hn::Set(d, 1.f), d, w.decay + c);
  }
  take_tokens<kRank>(d, call, head.tokens, w);
  if (call.state_v_first) {
    read_v_first<kRank>(d, w, tokens, state, K, first, last, ahead);
  } else {
    read_k_first<kRank>(d, w, tokens, state, V, K, first, last, ahead);
  }
  append_tokens<kRank>(d, call, head, is_first_part, first, last, w);
  const Head& to = head.tokens;
  for (int t = 0; t < tokens; ++t) {
    if (call.normalize) divide_row(d, w.o[t] + first, last - first, w.divisors[t]);
    store_row(w.o[t] + first, to.o_dtype, last - first,
              to.o + t * to.o_step + static_cast<std::ptrdiff_t>(first * size_of(to.o_dtype)));
  }
}

HWY_INLINE void prefetch_ring(const RingHead& head, std::size_t K, std::size_t V) {
  for (int i = 0; i < head.places.count; ++i) {
    const std::int64_t place = head.places.place(i);
    prefetch_row(head.ring.k, place, K);
    prefetch_row(head.ring.g, place, head.ring.gates);
    prefetch_row(head.ring.v, place, V);
    if (head.ring_b.row == nullptr) continue;
    prefetch_row(head.ring_b, place, K);
    prefetch_row(head.ring_w, place, V);
  }
}

void replay_heads(const ReplayCall& replay, std::int64_t first_head, std::int64_t last_head,
                  std::int64_t part, std::int64_t parts, float* scratch) {
  const DenormalsAreZero denormals;
  const DF d;
  const RecurrenceCall& call = replay.call;
  const std::size_t K = static_cast<std::size_t>(call.K), V = static_cast<std::size_t>(call.V);
  Carver carver(scratch);
  ReplayWorkspace w(carver, K, V);
  const std::size_t vectors = (V + kLanes - 1) / kLanes;
  const auto cut = [&](std::int64_t at) HWY_ATTR {
    return std::min(V, vectors * static_cast<std::size_t>(at) / static_cast<std::size_t>(parts) * kLanes);
  };
  const std::size_t first = cut(part), last = cut(part + 1);
  if (first == last && part > 0) return;

  const CallExtras extras{.pair = replay.pair};
  const auto head_at = [&](std::int64_t i)
                           HWY_ATTR { return ring_head(replay, extras, i / call.HV, i % call.HV); };
  const auto run_head = call.rule == Rule::low_rank ? replay_head<2> : replay_head<1>;
  RingHead head = first_head < last_head ? head_at(first_head) : RingHead();
  for (std::int64_t i = first_head; i < last_head; ++i) {
    RingHead next;
    Ahead ahead;
    if (i + 1 < last_head) {
      next = head_at(i + 1);
      if (!next.tokens.skipped) {
        prefetch_token(next.tokens, 0, K, V);
        prefetch_ring(next, K, V);
        ahead.at = state_of(call.initial_state, next.places.slot, next.tokens.value_head);
        ahead.end = ahead.at + (call.state_v_first ? last * K : K * V);
        if (call.state_v_first) ahead.at += first * K;
      }
    }
    if (head.tokens.skipped) {
      store_zeros(head.tokens, first, last);
    } else {
      run_head(d, replay, head, part == 0, first, last, w, ahead);
    }
    head = next;
  }
}

constexpr ReplayKernel kReplayKernel{replay_scratch, replay_heads};

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();
#endif  // a target with vectors

#if HWY_ONCE
#include "backends/cpu_simd/target_cases.h"

namespace fla::cpu_simd {

FLA_DEFINE_KERNEL_OF_TARGET(ReplayKernel, replay_kernel, kReplayKernel)

}  // namespace fla::cpu_simd
#endif
