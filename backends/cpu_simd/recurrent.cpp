// The recurrence token by token, for the few tokens of a decoding step.
//
// A step reads and writes the whole state of a head and does little with it: memory decides. One worker takes
// a run of heads, one after the other:
//
//   vectors        decay, k, decay q and what reads u of up to kGroup tokens,         made once a head, in L1
//                  and b with rank 2, [K] each
//
//   state [K, V]   columns in blocks of kWriteVectors; for each token two passes     the block stays in L1
//                  over the block's rows (step-inl.h):
//                     read    sub-blocks of kReadVectors, sums of two products in registers
//                     write   whole rows of the block, u in registers, and v with rank 2
//
//   state [V, K]   kGroupRows rows (columns of the other layout) at a time; for     the rows stay in L1
//                  each token two passes over them:
//                     read    four rows together, two dot products each
//                     write   kWriteRows together; the sums of the first ones are
//                             long done when their turn comes
//
//   meanwhile      the state of the head after next comes to L2, as many lines a row as are used up
//
// States are read where they lie and written to their place. Each token has a place of its own where its
// state is kept; the others have that of the final state, or scratch where nobody wants that.

#include "backends/cpu_simd/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu_simd/recurrent.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu_simd/carver.h"
#include "backends/cpu_simd/denormals.h"
#include "backends/cpu_simd/kernels.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "backends/cpu_simd/fold-inl.h"
#include "backends/cpu_simd/inputs-inl.h"
#include "backends/cpu_simd/read-inl.h"
#include "backends/cpu_simd/step-inl.h"
#include "backends/cpu_simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr int kGroup = 8;       // tokens whose vectors are made together
constexpr int kHeadsAhead = 2;  // how far the prefetch runs before the arithmetic
template <int kRank>  // 64 columns; with rank 2 only as many as leave room for v beside u in registers
constexpr int kWriteVectors = kRank == 1 ? 64 / kLanes : std::min(64 / kLanes, kReadVectors);
constexpr int kGroupRows = 16;
template <int kRank>
constexpr int kWriteRows = kTileRows / kRank;  // written together, with u (and v) of each in a register

// Where a head's state is read and written; `to` is null when nothing has to be written.
struct StatePlace {
  const float* from;
  float* to;
};

struct RecurrentWorkspace {
  std::size_t channels, columns;
  Step steps[kGroup];
  Fold folded;
  const float* v[kGroup];  // rows, where they lie or in v_buffer
  float* o[kGroup];        // rows of the output or of o_buffer
  float* to[kGroup];       // where the states go; null: not written, of the last one
  float* u;                // one row
  float *q_buffer, *k_buffer, *g_buffer, *a_buffer, *b_buffer, *bias;
  float* key_sum;                          // of the tokens so far, of a call that normalizes
  float divisors[kGroup];                  // of the outputs of such a call
  float *v_buffer, *o_buffer;              // [kGroup][columns]
  float* state;                            // [K][V]
  const float* next_head_state = nullptr;  // where it is known

  RecurrentWorkspace(Carver& carver, std::size_t K, std::size_t V)
      : channels(round_up(K, kLanes)), columns(round_up(V, kLanes)) {
    for (Step& step : steps) {
      step.decay = carver.take(channels);
      step.key = carver.take(channels);
      step.probe = carver.take(channels);
      step.decayed_q = carver.take(channels);
    }
    folded.decay = carver.take(channels);
    folded.block = carver.take(K * kFoldedWrite * kLanes);
    for (float** rows : {&folded.probes, &folded.queries, &folded.keys})
      *rows = carver.take(kFolded * channels);
    u = carver.take(columns);
    q_buffer = carver.take(channels);
    k_buffer = carver.take(channels);
    g_buffer = carver.take(channels);
    a_buffer = carver.take(channels);
    b_buffer = carver.take(channels);
    key_sum = carver.take(channels);
    for (Step& step : steps) step.b = carver.take(channels);
    v_buffer = carver.take(kGroup * columns);
    o_buffer = carver.take(kGroup * columns);
    bias = carver.take(channels);
    state = carver.take(K * V);
  }

  // Of token t, from an element on.
  StatePlace place(int t, const float* from, std::size_t at) const {
    return {from + at, to[t] ? to[t] + at : nullptr};
  }
};

std::size_t recurrent_scratch(std::int64_t K, std::int64_t V) {
  Carver carver(nullptr);
  RecurrentWorkspace(carver, static_cast<std::size_t>(K), static_cast<std::size_t>(V));
  return carver.used();
}

// ---- [K, V]

template <int kRank, int kVectors>
HWY_INLINE void step_block(DF d, const Step& step, StatePlace place, std::size_t V, std::size_t K,
                           const float* v, float* u, float* out, const float* soon, Ahead& ahead) {
  constexpr int kRead = std::min(kVectors, kReadVectors);
  for (int n = 0; n < kVectors; n += kRead) {
    const int c = n * kLanes;
    step_read<kRank, kRead>(d, step, place.from + c, V, K, v + c, step.weight, u + c, out + c, ahead);
  }
  if (place.to) step_write<kRank, kVectors>(d, step, place.from, place.to, V, K, v, u, soon, ahead);
}

// The last columns, fewer than a vector.
template <int kRank>
HWY_INLINE void step_tail(DF d, const Step& step, StatePlace place, std::size_t V, std::size_t K,
                          std::size_t present, const float* v, float* out) {
  VF p = hn::Zero(d), r = hn::Zero(d);
  for (std::size_t k = 0; k < K; ++k) {
    const VF s = load_first(d, place.from + k * V, present);
    p = hn::MulAdd(s, hn::Set(d, step.probe[k]), p);
    r = hn::MulAdd(s, hn::Set(d, step.decayed_q[k]), r);
  }
  const VF vs = load_first(d, v, present), u = u_of<kRank>(d, step, p, step.weight, vs);
  store_first(output_of<kRank>(d, step, r, u, vs), d, out, present);
  if (place.to == nullptr) return;
  for (std::size_t k = 0; k < K; ++k) {
    const VF s = load_first(d, place.from + k * V, present);
    const VF b = hn::Set(d, kRank == 2 ? step.b[k] : 0.f);
    store_first(next_state<kRank>(hn::Set(d, step.decay[k]), s, hn::Set(d, step.key[k]), vs, b, u), d,
                place.to + k * V, present);
  }
}

template <int kRank, int kVectors>
HWY_INLINE void columns_through(DF d, const RecurrentWorkspace& w, int count, const float* from,
                                std::size_t V, std::size_t K, std::size_t column, std::size_t last,
                                Ahead& ahead) {
  const std::size_t after = column + kVectors * kLanes;
  const float* next = after < last ? from + after : w.next_head_state;
  for (int t = 0; t < count; ++t) {
    const StatePlace place = w.place(t, from, column);
    step_block<kRank, kVectors>(d, w.steps[t], place, V, K, w.v[t] + column, w.u + column, w.o[t] + column,
                                t + 1 == count && next ? next : place.from, ahead);
    from = w.to[t];
  }
}

template <int kRank>
HWY_NOINLINE void step_k_first(DF d, const RecurrentWorkspace& w, int count, const float* from, std::size_t V,
                               std::size_t K, std::size_t first, std::size_t last, Ahead& ahead) {
  std::size_t c = first;
  constexpr int kBlock = kWriteVectors<kRank>;
  for (; c + kBlock * kLanes <= last; c += kBlock * kLanes) {
    columns_through<kRank, kBlock>(d, w, count, from, V, K, c, last, ahead);
  }
  for (; c + 4 * kLanes <= last; c += 4 * kLanes)
    columns_through<kRank, 4>(d, w, count, from, V, K, c, last, ahead);
  for (; c + kLanes <= last; c += kLanes) columns_through<kRank, 1>(d, w, count, from, V, K, c, last, ahead);
  if (c == last) return;
  for (int t = 0; t < count; ++t) {
    step_tail<kRank>(d, w.steps[t], w.place(t, from, c), V, K, last - c, w.v[t] + c, w.o[t] + c);
    from = w.to[t];
  }
}

// Tokens whose states are not kept, a few at a time in one pass.
HWY_NOINLINE void fold_k_first(DF d, RecurrentWorkspace& w, int count, const float* from, std::size_t V,
                               std::size_t K, std::size_t first, std::size_t last, Ahead& ahead) {
  const auto run = [&]<int kTokens>(std::integral_constant<int, kTokens>, int t, float* to) HWY_ATTR {
    fold<kTokens>(d, w.steps + t, w.channels, w.folded);
    const float* const following = t + kTokens == count ? w.next_head_state : to + first;
    step_folded<kTokens>(d, w.folded, from, to, V, K, w.v + t, w.o + t, first, last, following, ahead);
  };
  for (int t = 0, now = 0; t < count; t += now) {
    now = tokens_to_fold(d, w.steps + t, count - t, w.channels);
    float* const to = w.to[t + now - 1];
    switch (now) {
      case 4: run(std::integral_constant<int, 4>{}, t, to); break;
      case 3: run(std::integral_constant<int, 3>{}, t, to); break;
      case 2: run(std::integral_constant<int, 2>{}, t, to); break;
      default: run(std::integral_constant<int, 1>{}, t, to);
    }
    from = to;
  }
}

// ---- [V, K]

// Second pass over kRows rows, kStretch vectors of each at a time: whole lines are stored.
template <int kRank, int kRows>
HWY_INLINE void write_rows(DF d, const Step& step, StatePlace place, std::size_t K,
                           const float* HWY_RESTRICT v, const float* HWY_RESTRICT u, Ahead& ahead) {
  VF un[kRows], vn[kRows];
  FLA_UNROLL for (int i = 0; i < kRows; ++i) {
    un[i] = hn::Set(d, u[i]);
    vn[i] = hn::Set(d, kRank == 2 ? v[i] : 0.f);
  }
  Ahead lines = ahead;
  std::size_t k = 0;
  for (; k + kStretch * kLanes <= K; k += kStretch * kLanes) {
    VF decay[kStretch], key[kStretch], b[kStretch];
    FLA_UNROLL for (int n = 0; n < kStretch; ++n) {
      decay[n] = hn::Load(d, step.decay + k + n * kLanes);
      key[n] = hn::Load(d, step.key + k + n * kLanes);
      b[n] = kRank == 2 ? hn::Load(d, step.b + k + n * kLanes) : hn::Zero(d);
    }
    FLA_UNROLL for (int i = 0; i < kRows; ++i) {
      if (i % 2 == 1) lines.touch<kStretch * kLanes>();
      const std::size_t at = static_cast<std::size_t>(i) * K + k;
      const float* source = opaque(place.from + at);
      float* target = opaque(place.to + at);
      VF s[kStretch];
      FLA_UNROLL for (int n = 0; n < kStretch; ++n) s[n] = hn::LoadU(d, source + n * kLanes);
      FLA_UNROLL for (int n = 0; n < kStretch; ++n) {
        s[n] = next_state<kRank>(decay[n], s[n], key[n], vn[i], b[n], un[i]);
      }
      FLA_UNROLL for (int n = 0; n < kStretch; ++n) hn::StoreU(s[n], d, target + n * kLanes);
    }
  }
  ahead = lines;
  for (; k < K; k += kLanes) {
    const std::size_t here = std::min<std::size_t>(kLanes, K - k);
    const VF decay = hn::Load(d, step.decay + k), key = hn::Load(d, step.key + k);
    const VF b = kRank == 2 ? hn::Load(d, step.b + k) : hn::Zero(d);
    for (int i = 0; i < kRows; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * K + k;
      const VF s = load_first(d, place.from + at, here);
      const VF vi = hn::Set(d, kRank == 2 ? v[i] : 0.f);
      store_first(next_state<kRank>(decay, s, key, vi, b, hn::Set(d, u[i])), d, place.to + at, here);
    }
  }
}

template <int kRank>
HWY_NOINLINE void step_v_first(DF d, const RecurrentWorkspace& w, int count, const float* from, std::size_t K,
                               std::size_t first, std::size_t last, Ahead& ahead) {
  constexpr int kRows = kWriteRows<kRank>;
  HWY_ALIGN_MAX float u[kGroupRows];
  for (std::size_t row = first; row < last; row += kGroupRows) {
    const std::size_t present = std::min<std::size_t>(kGroupRows, last - row);
    const float* before = from;
    for (int t = 0; t < count; ++t) {
      const auto [rows, to] = w.place(t, before, row * K);
      const Step& step = w.steps[t];
      const float* v = w.v[t] + row;
      for (std::size_t i = 0; i < present; i += 4) {
        read_rows<kRank>(d, step, rows + i * K, K, std::min<std::size_t>(4, present - i), v + i, u + i,
                         w.o[t] + row + i, ahead);
      }
      std::size_t i = 0;
      for (; to && i + kRows <= present; i += kRows) {
        write_rows<kRank, kRows>(d, step, {rows + i * K, to + i * K}, K, v + i, u + i, ahead);
      }
      for (; to && i < present; ++i)
        write_rows<kRank, 1>(d, step, {rows + i * K, to + i * K}, K, v + i, u + i, ahead);
      before = w.to[t];
    }
  }
}

// ---- Heads

// The part of a state that belongs to columns [first, last): rows of it, or pieces of rows.
template <class Each>
HWY_INLINE void each_piece(bool v_first, std::size_t K, std::size_t V, std::size_t first, std::size_t last,
                           Each each) {
  if (v_first) {
    each(first * K, (last - first) * K);
  } else {
    for (std::size_t k = 0; k < K; ++k) each(k * V + first, last - first);
  }
}

HWY_NOINLINE void take_divisor(DF d, const float* q, const float* k, float q_factor, float k_factor, int t,
                               RecurrentWorkspace& w) {
  w.divisors[t] = divisor_of(d, q, k, q_factor, k_factor, w.channels, w.key_sum);
}

template <int kRank>
HWY_NOINLINE void recurrent_head(DF d, const RecurrenceCall& call, const Head& head, std::size_t first,
                                 std::size_t last, RecurrentWorkspace& w, Ahead& ahead) {
  const std::size_t K = static_cast<std::size_t>(call.K), V = static_cast<std::size_t>(call.V);
  const float* from = head.initial_state;
  float* const passing = head.final_state ? head.final_state : w.state;  // of states that are not kept
  const auto copy = [&](const float* source, float* target) HWY_ATTR {
    each_piece(call.state_v_first, K, V, first, last, [&](std::size_t at, std::size_t size) HWY_ATTR {
      if (source == nullptr) {
        std::memset(target + at, 0, size * sizeof(float));
      } else if (source != target) {
        std::memcpy(target + at, source + at, size * sizeof(float));
      }
    });
  };
  if (from == nullptr || head.tokens == 0) {
    copy(from, passing);
    from = passing;
  }

  if (call.normalize) std::memset(w.key_sum, 0, w.channels * sizeof(float));
  const TokenReader reader{call, head, K, w.channels, bias_row(head, K, w.channels, w.bias)};
  for (std::int64_t token = 0; token < head.tokens; token += kGroup) {
    const int count = static_cast<int>(std::min<std::int64_t>(kGroup, head.tokens - token));
    const std::int64_t following = std::min(token + 2 * kGroup, head.tokens);
    for (std::int64_t t = token + kGroup; t < following; ++t) prefetch_token(head, t, K, V);
    HWY_ALIGN_MAX float beta[HWY_MAX(kGroup, kLanes)] = {};
    if (call.rule == Rule::delta) reader.betas(token, static_cast<std::size_t>(count), beta);
    for (int t = 0; t < count; ++t) {
      const float *q = reader.q_row(token + t, w.q_buffer), *k = reader.k_row(token + t, w.k_buffer);
      const float q_factor = reader.norm_factor(q) * call.scale, k_factor = reader.norm_factor(k);
      prepare_step(d, call.rule, q, k, reader.gate_row(token + t, w.g_buffer, w.channels), reader.gate_unit(),
                   q_factor, k_factor, beta[t], w.channels, w.steps[t]);
      if (call.normalize) take_divisor(d, q, k, q_factor, k_factor, t, w);
      if constexpr (kRank == 2) {
        prepare_pair(d, q, q_factor, as_floats(head.a.at(token + t), head.a.dtype, K, w.channels, w.a_buffer),
                     as_floats(head.b.at(token + t), head.b.dtype, K, w.channels, w.b_buffer), w.channels,
                     w.steps[t]);
      }
      const std::size_t at = static_cast<std::size_t>(t) * w.columns;
      std::byte* o = head.o + (token + t) * head.o_step;
      w.v[t] = as_floats(head.v.at(token + t), head.v.dtype, V, V, w.v_buffer + at);
      w.o[t] = head.o_dtype == DType::f32 ? reinterpret_cast<float*>(o) : w.o_buffer + at;
    }
    float* kept = nullptr;
    bool all_pass = true;  // but for the last
    for (int t = 0; t < count; ++t) {
      all_pass &= kept == nullptr;
      kept = head.kept_after(token + t + 1);
      w.to[t] = kept ? kept : passing;
    }
    const bool last_group = token + count == head.tokens;
    if (last_group && (head.final_state || kept == nullptr)) w.to[count - 1] = head.final_state;
    if (call.state_v_first) {
      step_v_first<kRank>(d, w, count, from, K, first, last, ahead);
    } else if (kRank == 1 && count > 1 && all_pass) {
      fold_k_first(d, w, count, from, V, K, first, last, ahead);
    } else {
      step_k_first<kRank>(d, w, count, from, V, K, first, last, ahead);
    }
    from = w.to[count - 1];
    if (last_group && kept && head.final_state) copy(head.final_state, kept);
    for (int t = 0; t < count && call.normalize; ++t)
      divide_row(d, w.o[t] + first, last - first, w.divisors[t]);
    for (int t = 0; t < count && head.o_dtype != DType::f32; ++t) {
      store_row(
          w.o[t] + first, head.o_dtype, last - first,
          head.o + (token + t) * head.o_step + static_cast<std::ptrdiff_t>(first * size_of(head.o_dtype)));
    }
  }
}

void recurrent_heads(const RecurrenceCall& call, const CallExtras& extras, std::int64_t first_head,
                     std::int64_t last_head, std::int64_t part, std::int64_t parts, float* scratch) {
  const DenormalsAreZero denormals;
  const DF d;
  const std::size_t K = static_cast<std::size_t>(call.K), V = static_cast<std::size_t>(call.V);
  Carver carver(scratch);
  RecurrentWorkspace w(carver, K, V);

  const std::size_t vectors = (V + kLanes - 1) / kLanes;
  const auto cut = [&](std::int64_t at) HWY_ATTR {
    return std::min(V, vectors * static_cast<std::size_t>(at) / static_cast<std::size_t>(parts) * kLanes);
  };
  const std::size_t first = cut(part), last = cut(part + 1);
  if (first == last) return;

  const auto head_at = [&](std::int64_t i)
                           HWY_ATTR { return head_of(call, extras, i / call.HV, i % call.HV); };
  const auto run_head = call.rule == Rule::low_rank ? recurrent_head<2> : recurrent_head<1>;
  Head head = first_head < last_head ? head_at(first_head) : Head();
  for (std::int64_t i = first_head; i < last_head; ++i) {
    Ahead ahead;
    if (const std::int64_t after = i + kHeadsAhead; call.initial_state.data && after < last_head) {
      const std::int64_t slot = slots_of(call, extras.accepted, after / call.HV).read;
      if (slot >= 0) {
        ahead.at = state_of(call.initial_state, slot, after % call.HV);
        ahead.end = ahead.at + (call.state_v_first ? last * K : K * V);
        if (call.state_v_first) ahead.at += first * K;
      }
    }
    Head next;
    w.next_head_state = nullptr;
    if (i + 1 < last_head) {
      next = head_at(i + 1);
      prefetch_token(next, 0, K, V);
      w.next_head_state = next.initial_state ? next.initial_state + first : nullptr;
    }
    if (head.skipped) {
      store_zeros(head, first, last);
    } else {
      run_head(d, call, head, first, last, w, ahead);
    }
    head = next;
  }
}

constexpr RecurrentKernel kRecurrentKernel{recurrent_scratch, recurrent_heads};

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();
#endif  // a target with vectors

#if HWY_ONCE
#include "backends/cpu_simd/target_cases.h"

namespace fla::cpu_simd {

FLA_DEFINE_KERNEL_OF_TARGET(RecurrentKernel, recurrent_kernel, kRecurrentKernel)

}  // namespace fla::cpu_simd
#endif
