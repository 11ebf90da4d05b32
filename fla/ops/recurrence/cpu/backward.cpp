#include <algorithm>
#include <cmath>
#include <utility>

#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/ops/common/gate.h"
#include "fla/ops/common/rows.h"
#include "fla/ops/recurrence/cpu/chunk.h"
#include "fla/ops/recurrence/cpu/kernels.h"
#include "fla/ops/recurrence/cpu/step.h"
#include "fla/ops/recurrence/parameter_sums.h"
#include "fla/ops/recurrence/work.h"

/// The gradients of the chunked form (chunk.h), from a head's last chunk to its first. With E = scale dO, and
/// with dS' the gradient of the state that the chunk leaves,
///
///     dU  = M^T E + Kr dS'         dY  = (I + A)^-T dU          dV  = diag(beta) dY
///     dM  = E U^T                  dA  = -dY U^T                dbeta_i = dY_i (V - Kd S)_i + dA_i N_i
///     dQd = E S^T                  dKd = -dV S^T                dKr = U dS'^T
///     dS  = diag(D(end, start)) dS' + Qd^T E - Kd^T dV
///
/// where A = diag(beta) N, and dV = dU with Rule::additive, which has neither A nor Kd. A product x that
/// contains D(i, j) adds x dx to the gradient of every g_t with j < t <= i. Suffix and prefix sums collect
/// these terms; nothing is subtracted, so nothing cancels.
///
/// The forward pass keeps a state every kStretch tokens. The states at the starts of chunks are recomputed,
/// one stretch at a time. dS alone depends on no state: where nothing else is asked for there is no forward
/// pass.
namespace fla::recurrence {
namespace {

using common::add_rows;
using common::load_row;
using common::store_row;

constexpr std::int64_t kStretch = 256;
static_assert(kStretch % Head::kBlock == 0 && Head::kBlock % kChunk == 0);

float dot(std::int64_t count, const float* x, const float* y) {
  constexpr std::int64_t kLanes = 16;  // partial sums: a compiler does not reorder a single one
  float sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  for (std::int64_t lane = 0; i < count; ++lane, ++i) sums[lane] += x[i] * y[i];
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

/// The derivative of sigmoid at x. sigmoid(-x) is exact where 1 - sigmoid(x) rounds to 0.
float sigmoid_slope(float x) { return common::sigmoid(x) * common::sigmoid(-x); }

void add_scaled(std::int64_t count, float factor, const float* x, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
}

/// What a head's gradients are found in: for the block E dv [kBlock][V], dq dk dg (and da db) [kBlock][K],
/// dbeta and the divisors' gradients [kBlock]; for the chunk dU Z [kChunk][V], what D leads from the start to
/// a token and from a token to the end, and one D(i, j), and dQd dKd dKr [kChunk][K], dM dA [kChunk][kChunk],
/// a row [K]; dS [K][V]; the states at the starts of a stretch's chunks, and with Rule::low_rank those of a
/// chunk's tokens.
struct GradientMemory {
  float *E, *dv, *dq, *dk, *dg, *da, *db, *dbeta, *ddivisors;
  float *dU, *Z, *from_start, *to_end, *D, *dQd, *dKd, *dKr, *dM, *dA, *row;
  float *dS, *starts, *tokens;
  float *keys,
      *later_keys;  ///< of a call that normalizes: before each block of the stretch, and from later tokens

  template <class Next>
  static void lay_out(GradientMemory& m, const RecurrenceCall& call, Next&& next) {
    const std::int64_t K = call.K, V = call.V, block = Head::kBlock;
    m.E = next(block * V), m.dv = next(block * V);
    m.dq = next(block * K), m.dk = next(block * K), m.dg = next(block * K);
    m.da = next(call.rule == Rule::low_rank ? block * K : 0);
    m.db = next(call.rule == Rule::low_rank ? block * K : 0);
    m.dbeta = next(block), m.ddivisors = next(block);
    m.dU = next(kChunk * V), m.Z = next(kChunk * V);
    m.from_start = next(kChunk * K), m.to_end = next(kChunk * K), m.D = next(kChunk * K);
    m.dQd = next(kChunk * K), m.dKd = next(kChunk * K), m.dKr = next(kChunk * K);
    m.dM = next(kChunk * kChunk), m.dA = next(kChunk * kChunk), m.row = next(K);
    m.dS = next(K * V), m.starts = next(kStretch / kChunk * K * V);
    m.tokens = next(call.rule == Rule::low_rank ? (kChunk + 1) * K * V : 0);
    m.keys = next(call.normalize ? kStretch / block * K : 0);
    m.later_keys = next(call.normalize ? K : 0);
  }
  static std::size_t floats(const RecurrenceCall& call) {
    std::int64_t total = 0;
    GradientMemory unused{};
    lay_out(unused, call, [&](std::int64_t count) -> float* {
      total += count;
      return nullptr;
    });
    return static_cast<std::size_t>(total);
  }
  GradientMemory() = default;
  GradientMemory(float* memory, const RecurrenceCall& call) {
    lay_out(*this, call, [&](std::int64_t count) { return std::exchange(memory, memory + count); });
  }
};

/// A chunk that is gone through backwards, in a block that is prepared; the head's state is the one it starts
/// with.
template <Rule rule>
class ChunkGradients : Chunk<rule> {
 public:
  ChunkGradients(const Head& head, const Head::Block& block, const ChunkMemory& memory,
                 const GradientMemory& gradients, std::int64_t first)
      : Chunk<rule>(head, block, memory, first), d_(gradients) {}

  /// The block's rows of gradients; dS' becomes dS.
  void go_back() const {
    this->decay_keys();
    find_ranges();
    if (this->head_.call().normalize) {
      this->template find_updates<true>();
      for (std::int64_t i = 0; i < count_; ++i) {
        this->add_later_outputs(i);
        d_.ddivisors[first_ + i] = -dot(V_, E(i), m_.O + i * V_) / block_.divisors[first_ + i];
      }
    } else {
      this->template find_updates<false>(d_.Z);
    }
    find_value_gradients();
    go_through_state();
    find_decayed_gradients();
    go_through_pairs();
  }

  /// dS' becomes dS.
  void take_state_back() const {
    this->decay_keys();
    find_value_gradients<Wanted::state>();
    go_through_state<Wanted::state>();
  }

 private:
  enum class Wanted { all, state };
  using Base = Chunk<rule>;
  using Base::block_, Base::count_, Base::first_, Base::K_, Base::kDelta, Base::m_, Base::V_;
  using Base::decay, Base::k, Base::q;

  const float* E(std::int64_t i) const { return d_.E + (first_ + i) * V_; }
  const float* U(std::int64_t i) const { return m_.U + i * V_; }
  float* dv(std::int64_t i) const { return d_.dv + (first_ + i) * V_; }
  float* dq(std::int64_t i) const { return d_.dq + (first_ + i) * K_; }
  float* dk(std::int64_t i) const { return d_.dk + (first_ + i) * K_; }
  float* dg(std::int64_t i) const { return d_.dg + (first_ + i) * K_; }

  /// D(i, start) and D(end, i).
  void find_ranges() const {
    for (std::int64_t c = 0; c < K_; ++c) {
      float product = 1;
      for (std::int64_t i = 0; i < count_; ++i) d_.from_start[i * K_ + c] = product *= decay(i)[c];
      product = 1;
      for (std::int64_t i = count_ - 1; i >= 0; --i) {
        d_.to_end[i * K_ + c] = product;
        product *= decay(i)[c];
      }
    }
  }

  /// dV; the first part of dbeta, dM and dA.
  template <Wanted wanted = Wanted::all>
  void find_value_gradients() const {
    for (std::int64_t i = 0; i < count_; ++i) {
      float* dU = d_.dU + i * V_;
      std::fill_n(dU, V_, 0.0f);
      for (std::int64_t later = i; later < count_; ++later)
        add_scaled(V_, m_.M[(first_ + later) * kChunk + i], E(later), dU);
      add_rows(K_, V_, m_.Kr + i * K_, 1, d_.dS, dU);
    }
    for (std::int64_t i = 0; i < count_; ++i) {
      if constexpr (!kDelta) {
        std::copy_n(d_.dU + i * V_, V_, dv(i));
      } else {
        float* dY = dv(i);
        std::fill_n(dY, V_, 0.0f);
        for (std::int64_t later = i; later < count_; ++later)
          add_scaled(V_, m_.A[(first_ + later) * kChunk + i], d_.dU + later * V_, dY);
        if constexpr (wanted == Wanted::all) {
          for (std::int64_t j = 0; j < i; ++j) d_.dA[i * kChunk + j] = -dot(V_, dY, U(j));
          d_.dbeta[first_ + i] = dot(V_, dY, d_.Z + i * V_);
        }
        for (std::int64_t j = 0; j < V_; ++j) dY[j] *= block_.beta[first_ + i];
      }
      if constexpr (wanted == Wanted::all) {
        for (std::int64_t j = 0; j <= i; ++j) d_.dM[i * kChunk + j] = dot(V_, E(i), U(j));
      }
    }
  }

  /// dQd, dKd and dKr; dS. The row is that of diag(D(end, start)).
  template <Wanted wanted = Wanted::all>
  void go_through_state() const {
    for (std::int64_t c = 0; c < K_; ++c) {
      float* dS = d_.dS + c * V_;
      if constexpr (wanted == Wanted::all) {
        const float* S = this->head_.state() + c * V_;
        for (std::int64_t i = 0; i < count_; ++i) {
          d_.dQd[i * K_ + c] = dot(V_, E(i), S);
          if constexpr (kDelta) d_.dKd[i * K_ + c] = -dot(V_, dv(i), S);
          d_.dKr[i * K_ + c] = dot(V_, U(i), dS);
        }
        d_.row[c] = dot(V_, S, dS) * m_.decay[c];
      }
      for (std::int64_t j = 0; j < V_; ++j) dS[j] *= m_.decay[c];
      for (std::int64_t i = 0; i < count_; ++i) {
        add_scaled(V_, m_.Qd[i * K_ + c], E(i), dS);
        if constexpr (kDelta) add_scaled(V_, -m_.Kd[i * K_ + c], dv(i), dS);
      }
    }
  }

  /// The shares of what lies between a token and the chunk's ends.
  void find_decayed_gradients() const {
    for (std::int64_t c = 0; c < K_; ++c) {
      float later = 0;
      for (std::int64_t i = count_ - 1; i >= 0; --i) {
        const std::int64_t at = i * K_ + c;
        dq(i)[c] = d_.from_start[at] * d_.dQd[at];
        dk(i)[c] = d_.to_end[at] * d_.dKr[at];
        later += m_.Qd[at] * d_.dQd[at];
        if constexpr (kDelta) {
          dk(i)[c] += d_.from_start[at] * d_.dKd[at];
          later += m_.Kd[at] * d_.dKd[at];
        }
        dg(i)[c] = later + d_.row[c];
      }
      float earlier = 0;
      for (std::int64_t i = 0; i < count_; ++i) {
        dg(i)[c] += earlier;
        earlier += m_.Kr[i * K_ + c] * d_.dKr[i * K_ + c];
      }
    }
  }

  /// Those of M and A.
  void go_through_pairs() const {
    for (std::int64_t j = 0; j < count_; ++j) {
      std::fill_n(d_.D + j * K_, K_, 1.0f);
      for (std::int64_t i = j + 1; i < count_; ++i) {
        for (std::int64_t c = 0; c < K_; ++c) d_.D[i * K_ + c] = d_.D[(i - 1) * K_ + c] * decay(i)[c];
      }
      std::fill_n(d_.row, K_, 0.0f);  // the shares of the pairs from here on
      for (std::int64_t i = count_ - 1; i >= j; --i) {
        const float* D = d_.D + i * K_;
        const float dM = d_.dM[i * kChunk + j];
        const float dA = kDelta && i > j ? d_.dA[i * kChunk + j] : 0,
                    dN = kDelta && i > j ? dA * block_.beta[first_ + i] : 0;
        for (std::int64_t c = 0; c < K_; ++c) m_.pair[c] = D[c] * k(j)[c];
        add_scaled(K_, dM, m_.pair, dq(i));
        if (kDelta && i > j) {
          add_scaled(K_, dN, m_.pair, dk(i));
          d_.dbeta[first_ + i] += dA * dot(K_, k(i), m_.pair);
        }
        for (std::int64_t c = 0; c < K_; ++c) {
          const float x = dM * q(i)[c] + dN * k(i)[c];
          dk(j)[c] += D[c] * x;
          if (i == j) continue;
          d_.row[c] += m_.pair[c] * x;
          dg(i)[c] += d_.row[c];
        }
      }
    }
  }

  const GradientMemory& d_;
};

/// The same of Rule::low_rank, token by token.
class TokenGradients {
 public:
  TokenGradients(const Head& head, const Head::Block& block, const GradientMemory& gradients,
                 std::int64_t first)
      : head_(head),
        block_(block),
        d_(gradients),
        K_(head.call().K),
        V_(head.call().V),
        first_(first),
        count_(std::min(kChunk, block.count - first)) {}

  void advance_state() const {
    for (std::int64_t i = 0; i < count_; ++i) step(i);
  }

  void go_back() const {
    const std::int64_t size = K_ * V_;
    for (std::int64_t i = 0; i < count_; ++i) {
      std::copy_n(head_.state(), size, d_.tokens + i * size);
      step(i);
    }
    std::copy_n(head_.state(), size, d_.tokens + count_ * size);
    for (std::int64_t i = count_ - 1; i >= 0; --i)
      go_back_over(first_ + i, d_.tokens + i * size, d_.tokens + (i + 1) * size);
  }

  void take_state_back() const {
    for (std::int64_t t = first_ + count_ - 1; t >= first_; --t) {
      const std::int64_t at = t * K_;
      add_outer(K_, V_, block_.q + at, d_.E + t * V_, d_.dS);
      std::fill_n(d_.dU, V_, 0.0f);
      add_product(K_, V_, block_.b + at, d_.dS, d_.dU);
      for (std::int64_t c = 0; c < K_; ++c) {
        const float decay = std::exp(block_.g[at + c]);
        for (std::int64_t j = 0; j < V_; ++j) d_.dS[c * V_ + j] *= decay;
      }
      add_outer(K_, V_, block_.a + at, d_.dU, d_.dS);
    }
  }

 private:
  void step(std::int64_t i) const {
    const std::int64_t at = (first_ + i) * K_;
    const Token token{block_.q + at, block_.k + at, block_.v + (first_ + i) * V_, block_.g + at, 0,
                      block_.a + at, block_.b + at};
    recurrent_step<Rule::low_rank>(K_, V_, token, 1, head_.state(), d_.dU, d_.Z);
  }

  /// Token t of the block, between these states.
  void go_back_over(std::int64_t t, const float* before, const float* after) const {
    const std::int64_t at = t * K_;
    const float* E = d_.E + t * V_;
    const float *k = block_.k + at, *a = block_.a + at, *b = block_.b + at, *v = block_.v + t * V_;
    float *u = d_.Z, *du = d_.dU, *dv = d_.dv + t * V_;
    add_outer(K_, V_, block_.q + at, E, d_.dS);
    for (float* row : {u, du, dv}) std::fill_n(row, V_, 0.0f);
    add_product(K_, V_, a, before, u);
    add_product(K_, V_, b, d_.dS, du);
    add_product(K_, V_, k, d_.dS, dv);
    for (std::int64_t c = 0; c < K_; ++c) {
      float* dS = d_.dS + c * V_;
      const float decay = std::exp(block_.g[at + c]);
      d_.dq[at + c] = dot(V_, after + c * V_, E);
      d_.dk[at + c] = dot(V_, dS, v);
      d_.db[at + c] = dot(V_, dS, u);
      d_.da[at + c] = dot(V_, before + c * V_, du);
      d_.dg[at + c] = decay * dot(V_, before + c * V_, dS);
      for (std::int64_t j = 0; j < V_; ++j) dS[j] *= decay;
    }
    add_outer(K_, V_, a, du, d_.dS);
  }

  const Head& head_;
  const Head::Block& block_;
  const GradientMemory& d_;
  std::int64_t K_, V_, first_, count_;
};

/// Gradients of rows of key heads, which all value heads of a group have a part in: sums over those that
/// came, or nothing where a group is one head.
struct GroupSums {
  float *q, *k, *a, *b;  ///< [tokens][K]
  bool first, last;      ///< of the group's heads
};

/// One value head of one sequence.
template <Rule rule>
class HeadGradients {
 public:
  static std::size_t floats(const RecurrenceCall& call) {
    return ChunkMemory::floats(call.K, call.V) + GradientMemory::floats(call);
  }

  HeadGradients(const BackwardCall& call, const Head& head, float* memory, const ParameterSums& sums,
                const GroupSums& group)
      : call_(call),
        head_(head),
        K_(call.call.K),
        V_(call.call.V),
        m_(memory, K_, V_),
        d_(memory + ChunkMemory::floats(K_, V_), call.call),
        sums_(sums),
        group_(group) {}

  /// `kept` is room for a state, and the keys' sum before it, every kStretch tokens.
  void run(std::int64_t sequence, float* kept) const {
    if (wants_state_alone(call_)) return take_state_back(sequence);
    const std::int64_t size = K_ * V_ + K_, tokens = head_.tokens();
    head_.load_state();
    for (std::int64_t begin = 0; begin < tokens; begin += kStretch) {
      float* place = kept + begin / kStretch * size;
      std::copy_n(head_.state(), K_ * V_, place);
      if (head_.keys()) std::copy_n(head_.keys(), K_, place + K_ * V_);
      if (begin + kStretch < tokens) advance_stretch(begin, nullptr);
    }
    head_.load_state(call_.dht, sequence, d_.dS);
    if (head_.keys()) std::fill_n(d_.later_keys, K_, 0.0f);
    for (std::int64_t begin = (tokens - 1) / kStretch * kStretch; begin >= 0 && tokens > 0;
         begin -= kStretch) {
      const float* place = kept + begin / kStretch * size;
      std::copy_n(place, K_ * V_, head_.state());
      if (head_.keys()) std::copy_n(place + K_ * V_, K_, head_.keys());
      advance_stretch(begin, d_.starts);
      go_back_over(begin);
    }
    if (call_.dinitial_state.data) head_.store_state(call_.dinitial_state, sequence, d_.dS);
  }

  /// Whether the gradient of initial_state is all that is asked for. Divisors are made from the first token
  /// on.
  static bool wants_state_alone(const BackwardCall& call) {
    for (const common::Rows* rows :
         {&call.dq, &call.dk, &call.dv, &call.dg, &call.dbeta, &call.da, &call.db}) {
      if (rows->data) return false;
    }
    for (const common::Parameters* sum : {&call.dg_gamma, &call.dA_log, &call.ddt_bias}) {
      if (sum->data) return false;
    }
    return call.dinitial_state.data && !call.call.normalize;
  }

 private:
  void take_state_back(std::int64_t sequence) const {
    head_.load_state(call_.dht, sequence, d_.dS);
    for (std::int64_t begin = (head_.tokens() - 1) / Head::kBlock * Head::kBlock;
         begin >= 0 && head_.tokens() > 0; begin -= Head::kBlock) {
      const Head::Block block = prepare(begin);
      load_upstream(block);
      for (std::int64_t first = (block.count - 1) / kChunk * kChunk; first >= 0; first -= kChunk)
        chunk(block, first).take_state_back();
    }
    head_.store_state(call_.dinitial_state, sequence, d_.dS);
  }

  Head::Block prepare(std::int64_t begin) const {
    if constexpr (rule == Rule::low_rank) {
      return head_.load_block(begin);
    } else {
      return prepare_block<rule>(head_, m_, begin);
    }
  }
  auto chunk(const Head::Block& block, std::int64_t first) const {
    if constexpr (rule == Rule::low_rank) {
      return TokenGradients(head_, block, d_, first);
    } else {
      return ChunkGradients<rule>(head_, block, m_, d_, first);
    }
  }

  std::int64_t end_of(std::int64_t begin) const { return std::min(begin + kStretch, head_.tokens()); }

  /// Takes the state over the stretch, and keeps those that its chunks start with, where there is room.
  void advance_stretch(std::int64_t begin, float* starts) const {
    for (std::int64_t at = begin; at < end_of(begin); at += Head::kBlock) {
      if (starts && head_.keys()) std::copy_n(head_.keys(), K_, d_.keys + (at - begin) / Head::kBlock * K_);
      const Head::Block block = prepare(at);
      for (std::int64_t first = 0; first < block.count; first += kChunk) {
        if (starts) std::copy_n(head_.state(), K_ * V_, starts + (at - begin + first) / kChunk * K_ * V_);
        advance(block, first);
      }
    }
  }
  void advance(const Head::Block& block, std::int64_t first) const {
    if constexpr (rule == Rule::low_rank) {
      TokenGradients(head_, block, d_, first).advance_state();
    } else {
      Chunk<rule>(head_, block, m_, first).advance_state();
    }
  }

  void go_back_over(std::int64_t stretch) const {
    const std::int64_t last = (end_of(stretch) - 1 - stretch) / Head::kBlock * Head::kBlock;
    for (std::int64_t at = last; at >= 0; at -= Head::kBlock) {
      if (head_.keys()) std::copy_n(d_.keys + at / Head::kBlock * K_, K_, head_.keys());
      const Head::Block block = prepare(stretch + at);
      load_upstream(block);
      for (std::int64_t first = (block.count - 1) / kChunk * kChunk; first >= 0; first -= kChunk) {
        std::copy_n(d_.starts + (at + first) / kChunk * K_ * V_, K_ * V_, head_.state());
        chunk(block, first).go_back();
      }
      if (head_.keys()) go_through_divisors(block, d_.keys + at / Head::kBlock * K_);
      store(block);
    }
  }

  /// E
  void load_upstream(const Head::Block& block) const {
    const common::Rows& rows = call_.do_;
    for (std::int64_t t = 0; t < block.count; ++t) {
      float* E = d_.E + t * V_;
      load_row(rows.data, rows.dtype, head_.offset(rows, head_.value_head(), block.begin + t), rows.channel,
               V_, E);
      for (std::int64_t j = 0; j < V_; ++j) {
        E[j] *= call_.call.scale;
        if (head_.keys()) E[j] /= block.divisors[t];
      }
    }
  }

  /// Divisors are scale q^T z + 1e-10, z the sum of the keys so far; `keys` is that before the block, and
  /// changes.
  void go_through_divisors(const Head::Block& block, float* keys) const {
    const float scale = call_.call.scale;
    for (std::int64_t t = 0; t < block.count; ++t) {
      for (std::int64_t c = 0; c < K_; ++c) keys[c] += block.k[t * K_ + c];
      add_scaled(K_, scale * d_.ddivisors[t], keys, d_.dq + t * K_);
    }
    for (std::int64_t t = block.count - 1; t >= 0; --t) {
      add_scaled(K_, scale * d_.ddivisors[t], block.q + t * K_, d_.later_keys);
      add_scaled(K_, 1, d_.later_keys, d_.dk + t * K_);
    }
  }

  void store(const Head::Block& block) const {
    const bool norm = call_.call.l2norm;
    store_key_rows(block, d_.dq, group_.q, call_.dq, norm ? &call_.call.q : nullptr);
    store_key_rows(block, d_.dk, group_.k, call_.dk, norm ? &call_.call.k : nullptr);
    store_key_rows(block, d_.da, group_.a, call_.da, nullptr);
    store_key_rows(block, d_.db, group_.b, call_.db, nullptr);
    for (std::int64_t t = 0; t < block.count; ++t) {
      if (call_.dv.data) store_row_of(call_.dv, head_.value_head(), block.begin + t, V_, d_.dv + t * V_);
      if (call_.dbeta.data) store_beta(block, t);
      store_gate(block, t);
    }
  }

  void store_row_of(const common::Rows& rows, std::int64_t head, std::int64_t token, std::int64_t channels,
                    const float* row) const {
    store_row(rows.data, rows.dtype, head_.offset(rows, head, token), rows.channel, channels, row);
  }

  /// Rows of the key head, once all of its value heads have added theirs. `normed`: what the norm is taken
  /// of.
  void store_key_rows(const Head::Block& block, float* rows, float* sums, const common::Rows& to,
                      const common::Rows* normed) const {
    if (!to.data) return;
    for (std::int64_t t = 0; t < block.count; ++t) {
      float* row = rows + t * K_;
      if (sums) {
        float* sum = sums + (block.begin + t) * K_;
        if (!group_.first) add_scaled(K_, 1, sum, row);
        std::copy_n(row, K_, sum);
      }
      if (!group_.last) continue;
      if (normed) go_through_norm(*normed, block.begin + t, row);
      store_row_of(to, head_.key_head(), block.begin + t, K_, row);
    }
  }

  /// Of y = x r, r = rsqrt(sum(x^2) + 1e-6): dx = r (dy - y (y^T dy)).
  void go_through_norm(const common::Rows& rows, std::int64_t token, float* dx) const {
    float* x = d_.row;
    load_row(rows.data, rows.dtype, head_.offset(rows, head_.key_head(), token), rows.channel, K_, x);
    const float factor = 1 / std::sqrt(dot(K_, x, x) + 1e-6f);
    for (std::int64_t c = 0; c < K_; ++c) x[c] *= factor;
    const float along = dot(K_, x, dx);
    for (std::int64_t c = 0; c < K_; ++c) dx[c] = factor * (dx[c] - x[c] * along);
  }

  void store_beta(const Head::Block& block, std::int64_t t) const {
    const common::Rows& beta = call_.call.beta;
    float gradient = d_.dbeta[t];
    if (call_.call.beta_sigmoid) {
      float in = 0;
      load_row(beta.data, beta.dtype, head_.offset(beta, head_.value_head(), block.begin + t), 0, 1, &in);
      gradient *= (call_.call.neg_eigval ? 2.0f : 1.0f) * sigmoid_slope(in);
    }
    store_row_of(call_.dbeta, head_.value_head(), block.begin + t, 1, &gradient);
  }

  void store_gate(const Head::Block& block, std::int64_t t) const {
    const RecurrenceCall& call = call_.call;
    if (!call.g.data) return;
    const bool by_channel = call.gate_kind == GateKind::channel;
    const std::int64_t width = by_channel ? K_ : 1;
    float* dg = d_.dg + t * K_;
    if (!by_channel) {
      for (std::int64_t c = 1; c < K_; ++c) dg[0] += dg[c];
    }
    if (call.gate_kind == GateKind::head) {
      *sums_.gamma += static_cast<double>(dg[0]);
      return;
    }
    if (call.gate != common::GateInput::given) go_through_gate(block.begin + t, width, dg);
    if (call_.dg.data) store_row_of(call_.dg, head_.value_head(), block.begin + t, width, dg);
  }

  /// From the gradients of log-decays to those of what the gate is made from.
  void go_through_gate(std::int64_t token, std::int64_t width, float* dg) const {
    const RecurrenceCall& call = call_.call;
    const std::int64_t head = head_.value_head();
    const auto parameter = [head](const common::Parameters& of, std::int64_t channel) {
      float value = 0;
      if (of.data) load_row(of.data, of.dtype, head * of.head + channel * of.channel, 0, 1, &value);
      return value;
    };
    float* x = d_.row;
    load_row(call.g.data, call.g.dtype, head_.offset(call.g, head, token), call.g.channel, width, x);
    const float rate = std::exp(parameter(call.A_log, 0));
    for (std::int64_t c = 0; c < width; ++c) {
      if (dg[c] == 0) continue;  // gates of -inf, too
      const float in = x[c] + parameter(call.dt_bias, c);
      float by_rate = 0;  // the log-decay's derivative by A_log
      if (call.gate == common::GateInput::bounded) {
        const float slope = call.lower_bound * sigmoid_slope(rate * in) * rate;
        by_rate = dg[c] * slope * in;
        dg[c] *= slope;
      } else {
        by_rate = dg[c] * -rate * common::softplus(in);
        dg[c] *= -rate * common::sigmoid(in);
      }
      *sums_.rate += static_cast<double>(by_rate);
      sums_.bias[c] += static_cast<double>(dg[c]);
    }
  }

  const BackwardCall& call_;
  const Head& head_;
  std::int64_t K_, V_;
  ChunkMemory m_;
  GradientMemory d_;
  ParameterSums sums_;
  GroupSums group_;
};

template <Rule rule>
void run(const BackwardCall& back) {
  const RecurrenceCall& call = back.call;
  const std::int64_t H = call.HV / call.group, K = call.K;
  const common::StageSet stages = common::StageSet::current();
  AllParameterSums sums(call);
  const CallExtras extras{.pair = back.pair};
  parallel_for(call.N * H, threads_for(call), [&](std::int64_t task, int) {
    const std::int64_t sequence = task / H;
    const Sequence range = sequence_of(call, sequence);
    const std::int64_t tokens = range.end - range.begin;
    const std::int64_t kept_tokens = HeadGradients<rule>::wants_state_alone(back) ? 0 : tokens;
    const auto states = static_cast<std::size_t>((kept_tokens + kStretch - 1) / kStretch * (K * call.V + K));
    const auto rows = static_cast<std::size_t>(call.group > 1 ? kept_tokens * K : 0);
    const HeldScratch memory(Head::floats(call) + HeadGradients<rule>::floats(call) + states + 4 * rows);
    float* const own = memory.data() + Head::floats(call);
    float* const kept = own + HeadGradients<rule>::floats(call);
    float* const shared = call.group > 1 ? kept + states : nullptr;
    const auto sums_of = [&](std::size_t i) { return shared ? shared + i * rows : nullptr; };
    for (std::int64_t i = 0; i < call.group; ++i) {
      const std::int64_t value_head = task % H * call.group + i;
      const Head head(call, extras, stages, sequence, value_head, memory.data());
      const GroupSums group{sums_of(0), sums_of(1), sums_of(2), sums_of(3), i == 0, i + 1 == call.group};
      HeadGradients<rule>(back, head, own, sums.of(sequence, value_head), group).run(sequence, kept);
    }
  });
  sums.store(back);
}

}  // namespace

void backward_on_cpu(const BackwardCall& call) {
  switch (call.call.rule) {
    case Rule::additive: return run<Rule::additive>(call);
    case Rule::delta: return run<Rule::delta>(call);
    case Rule::low_rank: return run<Rule::low_rank>(call);
  }
}

}  // namespace fla::recurrence
