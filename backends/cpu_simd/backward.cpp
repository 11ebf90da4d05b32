// The gradients, chunk by chunk from a head's last tokens to its first. With E = scale dO, dS' the gradient
// of the state that a chunk leaves, and D(i, j) the decay of a channel from token j to token i,
//
//   F_i = D(i, start)     N = -k F     Qd = q F     G_i = D(end, i)     Kr = k G     gamma = D(end, start)
//
//   Z   = V + N S             U  = beta Z + L U       forwards; U = V with the additive rule
//   dU  = M^T E + Kr dS'      dY = dU + L^T dY
//   dZ  = beta dY                                     dZ = dU with the additive rule
//   dM  = E U^T               dL = dY U^T             dbeta = dY Z + …
//   dQd = E S^T               dN = dZ S^T             dKr = U dS'^T
//   dS  = gamma dS' + Qd^T E + N^T dZ
//
// and dV = dZ. gradient_pairs-inl.h has M and L and what their gradients lead to. Products with states and
// with values are register tiles (gradient_products-inl.h).
//
// A product x that contains D(i, j) adds x dx to the gradient of every g_t with j < t <= i; suffix and prefix
// sums collect these terms. Every D is a running product of decays, for any gates.
//
// A head goes over its stretches of kStretch tokens twice: forwards, keeping the state at the start of each
// stretch, then backwards. On the way back a stretch is first recomputed, which keeps for each of its chunks
//
//   start   the state, [panel][channels][kWidth]
//   decay   [kTokens][row]
//   M, L    [kTokens][kTokens]
//   U, Z    [panel][kTokens][kWidth]
//   beta    [kTokens]

#include "backends/cpu_simd/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu_simd/backward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu_simd/denormals.h"
#include "backends/cpu_simd/kernels.h"
#include "backends/cpu_simd/prefetch.h"
#include "fla/ops/common/gate.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "backends/cpu_simd/gradient_decays-inl.h"
#include "backends/cpu_simd/gradient_memory-inl.h"
#include "backends/cpu_simd/gradient_pairs-inl.h"
#include "backends/cpu_simd/gradient_products-inl.h"
#include "backends/cpu_simd/gradient_token_pairs-inl.h"
#include "backends/cpu_simd/inputs-inl.h"
#include "backends/cpu_simd/state_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

// One value head of one sequence.
class HeadGradients {
 public:
  HeadGradients(const BackwardCall& back, const GradientTask& task, std::int64_t value_head,
                GradientMemory& memory)
      : back_(back),
        call_(back.call),
        sums_(task.sums.of(task.sequence, value_head)),
        sequence_(task.sequence),
        value_head_(value_head),
        head_(head_of(back.call, {}, task.sequence, value_head)),
        to_(gradients_of(back, task.sequence, value_head)),
        m_(memory),
        size_(memory.size),
        reader_{call_, head_, size_.K, size_.channels, bias_row(head_, size_.K, size_.channels, memory.bias)},
        one_gate_(call_.gate_kind != GateKind::channel),
        first_of_group_(value_head % call_.group == 0),
        last_of_group_((value_head + 1) % call_.group == 0) {}

  template <bool kDelta>
  void run() {
    load_state(head_.initial_state, m_.kept_states);
    const std::int64_t stretches = stretches_of(head_.tokens);
    for (std::int64_t s = 0; s + 1 < stretches; ++s) {
      std::memcpy(kept_state(s + 1), kept_state(s), size_.state * sizeof(float));
      KeptChunk chunk = m_.chunk(0);
      for (std::int64_t first = s * kStretch; first < (s + 1) * kStretch; first += kTokens)
        advance<kDelta>(first, chunk, kept_state(s + 1), kept_state(s + 1));
    }
    load_state(state_of(back_.dht, sequence_, value_head_), m_.dS);
    find_scale();
    for (std::int64_t s = stretches - 1; s >= 0; --s) go_back_over<kDelta>(s);
    if (float* to = state_of(back_.dinitial_state, sequence_, value_head_)) store_state(to);
  }

 private:
  float* kept_state(std::int64_t stretch) const {
    return m_.kept_states + static_cast<std::size_t>(stretch) * size_.state;
  }
  int tokens_from(std::int64_t first) const {
    return static_cast<int>(std::min<std::int64_t>(kTokens, head_.tokens - first));
  }

  void load_state(const float* from, float* to) const {
    for (std::size_t p = 0; p < size_.panels; ++p) {
      load_state_block(from, call_.state_v_first, size_.K, size_.V, p * kWidth, kWidth, m_.ones,
                       to + p * size_.panel, size_.channels);
    }
  }
  void store_state(float* to) const {
    scale_state(up_);
    for (std::size_t p = 0; p < size_.panels; ++p) {
      store_state_block(m_.dS + p * size_.panel, kWidth, call_.state_v_first, size_.K, size_.V, p * kWidth,
                        to);
    }
  }

  void scale_state(float factor) const {
    for (std::size_t p = 0; p < size_.panels; ++p) {
      float* const panel = m_.dS + p * size_.panel;
      scale_row(DF(), panel, factor, size_.channels * kWidth, panel);
    }
  }

  // A power of two brings the gradients that come in near 1, dS at once, and its inverse those that go out
  // back: what is small next to them is no denormal number, which would be zero, and they scale exactly.
  void find_scale() {
    const DF d;
    const float of_tokens = std::abs(call_.scale);
    VF most = hn::Zero(d);
    for (std::int64_t t = 0; t < head_.tokens; ++t)
      most = largest_of(d, as_floats(to_.do_.at(t), to_.do_.dtype, size_.V, size_.columns, m_.row),
                        size_.columns, most);
    most = hn::Mul(most, hn::Set(d, of_tokens));
    for (std::size_t p = 0; p < size_.panels; ++p)
      most = largest_of(d, m_.dS + p * size_.panel, size_.channels * kWidth, most);
    const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
    const int exponent =
        std::isfinite(largest) && largest > 0 ? std::clamp(std::ilogb(largest), -126, 126) : 0;
    down_ = std::ldexp(1.f, -exponent), up_ = std::ldexp(1.f, exponent);
    scale_state(down_);
  }

  template <bool kDelta>
  void go_back_over(std::int64_t stretch) {
    const std::int64_t begin = stretch * kStretch, end = std::min(begin + kStretch, head_.tokens);
    const std::int64_t chunks = (end - begin + kTokens - 1) / kTokens;
    std::memcpy(m_.chunk(0).start, kept_state(stretch), size_.state * sizeof(float));
    for (std::int64_t i = 0; i < chunks; ++i) {
      const KeptChunk chunk = m_.chunk(i);
      advance<kDelta>(begin + i * kTokens, chunk, chunk.start,
                      i + 1 < chunks ? m_.chunk(i + 1).start : nullptr);
    }
    for (std::int64_t i = chunks - 1; i >= 0; --i) {
      const KeptChunk chunk = m_.chunk(i), earlier = m_.chunk(std::max<std::int64_t>(i - 1, 0));
      go_back<kDelta>(begin + i * kTokens, chunk, i > 0 ? &earlier : nullptr);
    }
  }

  // ---- Forwards

  // From the state at `from` to the one behind the chunk, where that is wanted, with what the chunk keeps.
  template <bool kDelta>
  void advance(std::int64_t first, const KeptChunk& chunk, const float* from, float* to) {
    const DF d;
    const int count = tokens_from(first);
    read_betas<kDelta>(first, count, chunk.beta);
    read_keys<kDelta>(first, count, chunk.beta);
    read_decays(first, count, chunk.decay);
    const TokenRows tokens{m_.q, m_.k, m_.l, chunk.decay, size_.row, count};
    if (one_gate_) {
      pair_up_tokens<kDelta>(d, tokens, size_.channels, chunk.M, m_.turned + kPairs, chunk.L, m_.turned);
    } else {
      pair_up<kDelta>(d, tokens, size_.channels, {m_.M_sums, m_.L_sums}, chunk.M, chunk.L, m_.turned);
    }
    decay_forwards(d, m_, chunk.decay);
    read_values(d, head_.v, first, count, 1.f, kTokens, kDelta ? chunk.Z : chunk.U);
    RowPrefetch<kTokens, 4> prefetch(
        {{stream(head_.q, size_.K, first + kTokens), stream(head_.k, size_.K, first + kTokens),
          stream(head_.v, size_.V, first + kTokens), stream(head_.g, head_.gates, first + kTokens)}},
        static_cast<int>(size_.panels));
    for (std::size_t p = 0; p < size_.panels; ++p) {
      prefetch.advance();
      const std::size_t at = p * kTokens * kWidth;
      if constexpr (kDelta) {
        solve_values(d, m_.operand, from + p * size_.panel, size_.channels, m_.turned, chunk.beta, count,
                     chunk.Z + at, chunk.U + at);
      }
      if (!to) continue;
      update_panel<1>(d, from + p * size_.panel, to + p * size_.panel, size_.channels, m_.gamma, m_.Kr,
                      size_.row, chunk.U + at, count);
    }
  }

  // Rows from a token on, for a prefetch.
  template <class Rows>
  RowStream stream(const Rows& rows, std::size_t channels, std::int64_t first) const {
    return {rows.row, rows.step, channels * size_of(rows.dtype), first, head_.tokens};
  }

  template <bool kDelta>
  void read_betas(std::int64_t first, int count, float* to) const {
    if constexpr (kDelta) reader_.betas(first, static_cast<std::size_t>(count), to);
    std::fill(to + (kDelta ? count : 0), to + kTokens, 0.f);
  }

  // q, k and l, with the norm applied.
  template <bool kDelta>
  void read_keys(std::int64_t first, int count, const float* beta) const {
    const DF d;
    const std::size_t channels = size_.channels;
    for (int i = 0; i < count; ++i) {
      const float* q = reader_.q_row(first + i, m_.row);
      m_.q_factor[i] = reader_.norm_factor(q);
      scale_row(d, q, m_.q_factor[i], channels, row_at(m_.q, i, size_.row));
      const float* k = reader_.k_row(first + i, m_.row);
      m_.k_factor[i] = reader_.norm_factor(k);
      float* const own = row_at(m_.k, i, size_.row);
      scale_row(d, k, m_.k_factor[i], channels, own);
      if constexpr (kDelta) scale_row(d, own, -beta[i], channels, row_at(m_.l, i, size_.row));
    }
    for (int i = count; i < kTokens; ++i) {
      for (float* rows : {m_.q, m_.k, m_.l}) std::fill_n(row_at(rows, i, size_.row), channels, 0.f);
    }
  }

  void read_decays(std::int64_t first, int count, float* to) const {
    const DF d;
    const VF unit = hn::Set(d, reader_.gate_unit());
    const std::size_t width = one_gate_ ? 2 * kLanes : size_.channels;
    for (int i = 0; i < count; ++i) {
      const float* gates = reader_.gate_row(first + i, m_.gate_row, width);
      float* decay = row_at(to, i, size_.row);
      for (std::size_t c = 0; c < width; c += 2 * kLanes) {
        VF z[2] = {hn::Mul(unit, hn::LoadU(d, gates + c)), hn::Mul(unit, hn::LoadU(d, gates + c + kLanes))};
        exp2<2>(d, z);
        store_two(d, z, decay + c);
      }
      std::fill(decay + width, decay + size_.channels, decay[0]);
    }
    for (int i = count; i < kTokens; ++i) std::fill_n(row_at(to, i, size_.row), size_.channels, 1.f);
  }

  // Rows of values, times a factor, as the first kTokens of `rows` rows in panels.
  void read_values(DF d, const Head::Input& from, std::int64_t first, int count, float factor, int rows,
                   float* to) const {
    for (int i = 0; i < kTokens; ++i) {
      const float* row =
          i < count ? as_floats(from.at(first + i), from.dtype, size_.V, size_.columns, m_.row) : m_.zeros;
      to_panels(d, row, factor, size_.panels, i, rows, to);
    }
  }

  // ---- Backwards

  // The gradients of a chunk's tokens; dS' becomes dS. `earlier` is the chunk before it in the stretch, if
  // any.
  template <bool kDelta>
  void go_back(std::int64_t first, const KeptChunk& chunk, const KeptChunk* earlier) {
    const DF d;
    const int count = tokens_from(first);
    read_keys<kDelta>(first, count, chunk.beta);
    read_values(d, to_.do_, first, count, call_.scale * down_, 2 * kTokens, m_.E_dZ);
    decay_backwards(d, m_, chunk.decay);
    find_value_gradients<kDelta>(d, first, count, chunk, earlier);
    multiply_tokens<kDelta>(d, chunk, count);
    multiply_states<kDelta>(d, chunk, count);
    for (std::size_t p = 0; p < size_.panels; ++p) {
      float* const dS = m_.dS + p * size_.panel;
      update_panel<kDelta ? 2 : 1>(d, dS, dS, size_.channels, m_.gamma, m_.Qd_N, size_.row,
                                   m_.E_dZ + p * 2 * kTokens * kWidth, count);
    }
    go_through_decays<kDelta>(d, m_, count);
    go_through_pairs<kDelta>(d, count, chunk);
    if constexpr (kDelta) go_through_beta(d, chunk.beta, count);
    store<kDelta>(first, count);
  }

  // dY and dZ, while what the next steps read is brought near: the rows and the state of the chunk before,
  // and where gradients go.
  template <bool kDelta>
  void find_value_gradients(DF d, std::int64_t first, int count, const KeptChunk& chunk,
                            const KeptChunk* earlier) const {
    const std::int64_t before = first >= kTokens ? first - kTokens : head_.tokens;
    RowPrefetch<kTokens, 7> prefetch(
        {{stream(head_.q, size_.K, before), stream(head_.k, size_.K, before),
          stream(to_.do_, size_.V, before), stream(to_.dq, size_.K, first), stream(to_.dk, size_.K, first),
          stream(to_.dv, size_.V, first), stream(to_.dg, head_.gates, first)}},
        static_cast<int>(size_.panels));
    for (std::size_t p = 0; p < size_.panels; ++p) {
      prefetch.advance();
      if (earlier) prefetch_floats(earlier->start + p * size_.panel, size_.panel);
      float* const E = m_.E_dZ + p * 2 * kTokens * kWidth;
      solve_value_gradients<kDelta>(d, m_.operand, m_.dS + p * size_.panel, size_.channels, chunk.M, chunk.L,
                                    chunk.beta, count, E, m_.dY + p * kTokens * kWidth, E + kTokens * kWidth);
    }
  }

  template <bool kDelta>
  void go_through_pairs(DF d, int count, const KeptChunk& chunk) const {
    const TokenRows tokens{m_.q, m_.k, m_.l, chunk.decay, size_.row, count};
    const PairGradients to{m_.dq, m_.dk, m_.dg, m_.dl};
    if (one_gate_) {
      add_token_pair_gradients<kDelta>(d, tokens, size_.channels, chunk.M, chunk.L, m_.dM, m_.dL, m_.turned,
                                       to, m_.dg_shares);
      return;
    }
    for (std::size_t c = 0; c < size_.channels; c += 2 * kLanes)
      add_pair_gradients<kDelta>(d, tokens, m_.dM, m_.dL, c, m_.zeros, to, m_.pairs);
  }

  // dM, dL and the first part of dbeta.
  template <bool kDelta>
  void multiply_tokens(DF d, const KeptChunk& chunk, int count) const {
    constexpr std::size_t kPanel = kTokens * kWidth;
    const PanelRows E{m_.E_dZ, 2 * kPanel}, dY{m_.dY, kPanel}, U{chunk.U, kPanel}, Z{chunk.Z, kPanel};
    dot_lower(d, E, U, size_.panels, count, m_.dM);
    if constexpr (!kDelta) return;
    dot_lower(d, dY, U, size_.panels, count, m_.dL);
    for (int i = 0; i < count; i += 4) dot_pairs(d, dY.from(i), Z.from(i), size_.panels, m_.dbeta + i);
  }

  // dQd, dN, dKr and, of gamma, the products of a channel's rows in S and dS.
  template <bool kDelta>
  HWY_NOINLINE void multiply_states(DF d, const KeptChunk& chunk, int count) const {
    constexpr std::size_t kPanel = kTokens * kWidth;
    constexpr int kParts = kDelta ? 2 : 1;
    turn_values(d, m_.E_dZ, 2 * kTokens, size_.panels, kParts * kTokens, m_.turned_E_dZ);
    if constexpr (kDelta)
      turn_values(d, m_.E_dZ + kPanel, 2 * kTokens, size_.panels, kParts * kTokens, m_.turned_E_dZ + kTokens);
    turn_values(d, chunk.U, kTokens, size_.panels, kTokens, m_.turned_U);
    for (std::size_t k = 0; k < size_.channels; k += kTileRows) {
      const float *S = chunk.start + k * kWidth, *dS = m_.dS + k * kWidth;
      multiply_channels<kParts>(d, S, size_, m_.turned_E_dZ, count, m_.dQd_dN + k);
      multiply_channels<1>(d, dS, size_, m_.turned_U, count, m_.dKr + k);
      for (int i = 0; i < kTileRows; i += 4) {
        dot_pairs(d, PanelRows{S, size_.panel}.from(i), PanelRows{dS, size_.panel}.from(i), size_.panels,
                  m_.state_shares + k + i);
      }
    }
  }

  // From dl to dk and dbeta.
  void go_through_beta(DF d, const float* beta, int count) const {
    for (int i = 0; i < count; ++i) {
      const float* dl = row_at(m_.dl, i, size_.row);
      m_.dbeta[i] -= dot_row(d, dl, row_at(m_.k, i, size_.row), size_.channels);
      const VF factor = hn::Set(d, beta[i]);
      float* dk = row_at(m_.dk, i, size_.row);
      for (std::size_t c = 0; c < size_.channels; c += kLanes)
        hn::Store(hn::NegMulAdd(factor, hn::Load(d, dl + c), hn::Load(d, dk + c)), d, dk + c);
    }
  }

  // ---- To the call's memory

  template <bool kDelta>
  void store(std::int64_t first, int count) const {
    const DF d;
    for (int i = 0; i < count; ++i) {
      const std::int64_t token = first + i;
      store_key_row(d, to_.dq, token, row_at(m_.dq, i, size_.row), m_.q_sums, row_at(m_.q, i, size_.row),
                    m_.q_factor[i]);
      store_key_row(d, to_.dk, token, row_at(m_.dk, i, size_.row), m_.k_sums, row_at(m_.k, i, size_.row),
                    m_.k_factor[i]);
      if (to_.dv.row) {
        from_panels(d, m_.E_dZ + kTokens * kWidth, size_.panels, i, 2 * kTokens, m_.row);
        scale_row(d, m_.row, up_, size_.columns, m_.row);
        store_row(m_.row, to_.dv.dtype, size_.V, to_.dv.at(token));
      }
      if (kDelta && to_.dbeta.row) store_beta(token, m_.dbeta[i] * up_);
      if (head_.gates > 0) store_gate(d, token, i);
    }
  }

  // A row of the key head, once all of its value heads have added theirs. `unit` is the row, times `factor`,
  // that the gradient is of: y = x r, r = rsqrt(sum(x^2) + 1e-6), has dx = r (dy - y (y^T dy)).
  void store_key_row(DF d, const RowsOut& to, std::int64_t token, float* row, float* sums, const float* unit,
                     float factor) const {
    if (!to.row) return;
    scale_row(d, row, up_, size_.channels, row);
    if (call_.group > 1) {
      float* sum = sums + static_cast<std::size_t>(token) * size_.row;
      for (std::size_t c = 0; c < size_.channels; c += kLanes) {
        VF all = hn::Load(d, row + c);
        if (!first_of_group_) all = hn::Add(all, hn::Load(d, sum + c));
        hn::Store(all, d, row + c);
        hn::Store(all, d, sum + c);
      }
      if (!last_of_group_) return;
    }
    if (call_.l2norm) {
      const VF along = hn::Set(d, dot_row(d, unit, row, size_.channels)), factors = hn::Set(d, factor);
      for (std::size_t c = 0; c < size_.channels; c += kLanes) {
        const VF across = hn::NegMulAdd(hn::Load(d, unit + c), along, hn::Load(d, row + c));
        hn::Store(hn::Mul(factors, across), d, row + c);
      }
    }
    store_row(row, to.dtype, size_.K, to.at(token));
  }

  void store_beta(std::int64_t token, float gradient) const {
    if (call_.beta_sigmoid) {
      const float x = scalar_at(head_.beta.at(token), head_.beta.dtype);
      gradient *= (call_.neg_eigval ? 2.f : 1.f) * common::sigmoid(x) * common::sigmoid(-x);
    }
    store_row(&gradient, to_.dbeta.dtype, 1, to_.dbeta.at(token));
  }

  void store_gate(DF d, std::int64_t token, int i) const {
    float* dg = row_at(m_.dg, i, size_.row);
    scale_row(d, dg, up_, size_.channels, dg);
    if (call_.gate_kind == GateKind::channel) {
      if (call_.gate != Gate::given) go_through_gates(d, token, dg);
      if (to_.dg.row) store_row(dg, to_.dg.dtype, size_.K, to_.dg.at(token));
      return;
    }
    float sum = dot_row(d, dg, m_.ones, size_.channels) + m_.dg_shares[i] * up_;
    if (call_.gate_kind == GateKind::head) {
      *sums_.gamma += static_cast<double>(sum);
      return;
    }
    if (call_.gate != Gate::given) {
      std::fill_n(m_.row, kLanes, 0.f);
      m_.row[0] = sum;
      go_through_gates(d, token, m_.row);
      sum = m_.row[0];
    }
    if (to_.dg.row) store_row(&sum, to_.dg.dtype, 1, to_.dg.at(token));
  }

  // From the gradients of a token's log-decays to those of what its gates are made from.
  void go_through_gates(DF d, std::int64_t token, float* dg) const {
    const bool bounded = call_.gate == Gate::bounded;
    const std::size_t width = round_up(head_.gates, kLanes);
    copy_row(head_.g.at(token), head_.g.dtype, head_.gates, width, m_.gate_row);
    VF by_rate = hn::Zero(d);  // what A_log gets
    for (std::size_t c = 0; c < width; c += kLanes) {
      const VF gradient = hn::Load(d, dg + c);
      VF x = hn::Load(d, m_.gate_row + c);
      if (reader_.bias) x = hn::Add(x, hn::Load(d, reader_.bias + c));
      VF slope, by_log_rate;
      if (bounded) {
        const VF y = hn::Mul(x, hn::Set(d, head_.gate_rate * kLog2e));
        slope = hn::Mul(sigmoid2_slope(d, y), hn::Set(d, call_.lower_bound * head_.gate_rate));
        by_log_rate = hn::Mul(slope, x);
      } else {
        const VF y = hn::Mul(x, hn::Set(d, kLog2e));
        slope = hn::Mul(sigmoid2(d, y), hn::Set(d, -head_.gate_rate));
        by_log_rate = hn::Mul(softplus2(d, y), hn::Set(d, -head_.gate_rate * kLn2));
      }
      const auto none = hn::Eq(gradient, hn::Zero(d));  // gates of -inf, too
      by_rate = hn::Add(by_rate, hn::IfThenZeroElse(none, hn::Mul(gradient, by_log_rate)));
      hn::Store(hn::IfThenZeroElse(none, hn::Mul(gradient, slope)), d, dg + c);
    }
    *sums_.rate += static_cast<double>(sum_lanes(d, by_rate));
    for (std::size_t c = 0; c < head_.gates; ++c) sums_.bias[c] += static_cast<double>(dg[c]);
  }

  static constexpr float kLn2 = 0.693147181f;

  const BackwardCall& back_;
  const RecurrenceCall& call_;
  recurrence::ParameterSums sums_;
  std::int64_t sequence_, value_head_;
  Head head_;
  Gradients to_;
  GradientMemory& m_;
  const Sizes& size_;
  TokenReader reader_;
  bool one_gate_;  // for all channels
  bool first_of_group_, last_of_group_;
  float down_ = 1, up_ = 1;  // of gradients
};

std::size_t gradient_scratch(const RecurrenceCall& call, std::int64_t tokens) {
  Carver carver(nullptr);
  GradientMemory(carver, call, tokens);
  return carver.used();
}

void key_head_gradients(const BackwardCall& back, const GradientTask& task, float* scratch) {
  const DenormalsAreZero denormals;
  const RecurrenceCall& call = back.call;
  const Sequence tokens = sequence_of(call, task.sequence);
  Carver carver(scratch);
  GradientMemory memory(carver, call, tokens.end - tokens.begin);
  for (int i = 0; i < call.group; ++i) {
    HeadGradients head(back, task, task.key_head * call.group + i, memory);
    if (call.rule == Rule::delta) {
      head.run<true>();
    } else {
      head.run<false>();
    }
  }
}

constexpr BackwardKernel kBackwardKernel{gradient_scratch, key_head_gradients};

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();
#endif  // a target with vectors

#if HWY_ONCE
#include "backends/cpu_simd/target_cases.h"

namespace fla::cpu_simd {

FLA_DEFINE_KERNEL_OF_TARGET(BackwardKernel, backward_kernel, kBackwardKernel)

}  // namespace fla::cpu_simd
#endif
