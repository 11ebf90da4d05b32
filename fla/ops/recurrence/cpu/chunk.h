#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "fla/ops/common/rank_update.h"
#include "fla/ops/recurrence/cpu/head.h"

/// The chunked form of the recurrence. Within a chunk that starts with state S, and with the decay of every
/// channel written as D(i, j) = exp(g_(j+1) + … + g_i),
///
///     A_ij = beta_i k_i^T diag(D(i, j)) k_j   (j < i)         M_ij = q_i^T diag(D(i, j)) k_j   (j <= i)
///     U    = (I + A)^-1 diag(beta) (V - Kd S)                 Kd_i = k_i * D(i, start)
///     O    = scale (Qd S + M U)                               Qd_i = q_i * D(i, start)
///     S   <- diag(D(end, start)) S + Kr^T U                   Kr_i = k_i * D(end, i)
///
/// and U = V with Rule::additive. Rule::low_rank goes token by token.
///
/// Every D is a running product of exp(g_t), as it is in the recurrence: a gate of -inf makes it 0, and what
/// decays below the smallest float is 0 as it should be. Nothing is divided by a decay.
namespace fla::recurrence {

inline constexpr std::int64_t kChunk = 16;

/// What the kernel keeps beside the head's own: for the block, A and M [kBlock][kChunk], inverses in A's
/// place; for the chunk, Kd Qd Kr [kChunk][K] and Y U O [kChunk][V]; D(end, start) and k_j D(i, j) [K].
struct ChunkMemory {
  float *A, *M, *Kd, *Qd, *Kr, *Y, *U, *O, *decay, *pair;

  static std::size_t floats(std::int64_t K, std::int64_t V) {
    return static_cast<std::size_t>(2 * Head::kBlock * kChunk + 3 * kChunk * (K + V) + 2 * K);
  }
  ChunkMemory(float* memory, std::int64_t K, std::int64_t V) {
    const auto next = [&memory](std::int64_t count) { return std::exchange(memory, memory + count); };
    A = next(Head::kBlock * kChunk), M = next(Head::kBlock * kChunk);
    Kd = next(kChunk * K), Qd = next(kChunk * K), Kr = next(kChunk * K);
    Y = next(kChunk * V), U = next(kChunk * V), O = next(kChunk * V);
    decay = next(K), pair = next(K);
  }
};

/// The products of a row with beta k and with q. beta comes first: keys whose products are too large for f32
/// may have a beta of 0.
struct Products {
  float with_k, with_q;
};
inline Products multiply(std::int64_t K, const float* row, float beta, const float* k, const float* q) {
  constexpr std::int64_t kLanes = 16;  // partial sums: a compiler does not reorder a single one
  float with_k[kLanes] = {}, with_q[kLanes] = {};
  std::int64_t c = 0;
  for (; c + kLanes <= K; c += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      with_k[lane] += beta * k[c + lane] * row[c + lane];
      with_q[lane] += q[c + lane] * row[c + lane];
    }
  }
  for (std::int64_t lane = 0; c < K; ++lane, ++c) {
    with_k[lane] += beta * k[c] * row[c];
    with_q[lane] += q[c] * row[c];
  }
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) {
      with_k[lane] += with_k[lane + half];
      with_q[lane] += with_q[lane + half];
    }
  }
  return {with_k[0], with_q[0]};
}

/// A block's tokens [first, first + count), which are one chunk.
template <Rule rule>
class Chunk {
 public:
  Chunk(const Head& head, const Head::Block& block, const ChunkMemory& memory, std::int64_t first)
      : head_(head),
        block_(block),
        m_(memory),
        K_(head.call().K),
        V_(head.call().V),
        first_(first),
        count_(std::min(kChunk, block.count - first)) {}

  /// The rows of A and M.
  void pair_up() const {
    float* A = m_.A + first_ * kChunk;
    float* M = m_.M + first_ * kChunk;
    std::fill_n(A, count_ * kChunk, 0.0f);
    for (std::int64_t j = 0; j < count_; ++j) {
      std::copy_n(k(j), K_, m_.pair);
      for (std::int64_t i = j; i < count_; ++i) {
        if (i > j) multiply_by(decay(i), m_.pair);
        const Products products = multiply(K_, m_.pair, kDelta ? block_.beta[first_ + i] : 0, k(i), q(i));
        if (kDelta && i > j) A[i * kChunk + j] = products.with_k;
        M[i * kChunk + j] = products.with_q;
      }
    }
  }

  /// The outputs and the next state, once A's rows are those of (I + A)^-1.
  void advance() const {
    decay_keys();
    find_updates<true>();
    for (std::int64_t i = 0; i < count_; ++i) {
      float* out = m_.O + i * V_;
      add_later_outputs(i);
      for (std::int64_t j = 0; j < V_; ++j) out[j] *= head_.call().scale;
      head_.store_output(block_, first_ + i, out);
    }
    update_state();
  }

  /// The next state alone.
  void advance_state() const {
    decay_keys();
    find_updates<false>();
    update_state();
  }

 protected:
  static constexpr bool kDelta = rule == Rule::delta;

  const float* q(std::int64_t i) const { return block_.q + (first_ + i) * K_; }
  const float* k(std::int64_t i) const { return block_.k + (first_ + i) * K_; }
  const float* decay(std::int64_t i) const { return block_.g + (first_ + i) * K_; }  // exp(g) by now

  void multiply_by(const float* factors, float* row) const {
    for (std::int64_t c = 0; c < K_; ++c) row[c] *= factors[c];
  }

  /// Kd, Qd and Kr; `decay` becomes that of the whole chunk.
  void decay_keys() const {
    std::fill_n(m_.decay, K_, 1.0f);
    for (std::int64_t i = count_ - 1; i >= 0; --i) {
      for (std::int64_t c = 0; c < K_; ++c) {
        m_.Kr[i * K_ + c] = k(i)[c] * m_.decay[c];
        m_.decay[c] *= decay(i)[c];
      }
    }
    std::fill_n(m_.decay, K_, 1.0f);
    for (std::int64_t i = 0; i < count_; ++i) {
      for (std::int64_t c = 0; c < K_; ++c) {
        m_.decay[c] *= decay(i)[c];
        m_.Kd[i * K_ + c] = k(i)[c] * m_.decay[c];
        m_.Qd[i * K_ + c] = q(i)[c] * m_.decay[c];
      }
    }
  }

  /// U and, where outputs are wanted, Qd S in O. `left` is where V - Kd S goes, if anywhere.
  template <bool outputs>
  void find_updates(float* left = nullptr) const {
    std::fill_n(m_.Y, count_ * V_, 0.0f);
    if constexpr (outputs) std::fill_n(m_.O, count_ * V_, 0.0f);
    const float* S = head_.state();
    constexpr std::int64_t kRows = 8;  // of the state, which stay in cache for the whole chunk
    for (std::int64_t c = 0; c < K_; c += kRows) {
      const std::int64_t rows = std::min(kRows, K_ - c);
      for (std::int64_t i = 0; i < count_; ++i) {
        if constexpr (kDelta) common::add_rows(rows, V_, m_.Kd + i * K_ + c, 1, S + c * V_, m_.Y + i * V_);
        if constexpr (outputs) common::add_rows(rows, V_, m_.Qd + i * K_ + c, 1, S + c * V_, m_.O + i * V_);
      }
    }
    std::fill_n(m_.U, count_ * V_, 0.0f);
    for (std::int64_t i = 0; i < count_; ++i) {
      const float* v = block_.v + (first_ + i) * V_;
      if constexpr (kDelta) {
        float* y = m_.Y + i * V_;
        const float beta = block_.beta[first_ + i];
        if (left) {
          for (std::int64_t j = 0; j < V_; ++j) left[i * V_ + j] = v[j] - y[j];
        }
        for (std::int64_t j = 0; j < V_; ++j) y[j] = beta * (v[j] - y[j]);
        common::add_rows(i + 1, V_, m_.A + (first_ + i) * kChunk, 1, m_.Y, m_.U + i * V_);
      } else {
        std::copy_n(v, V_, m_.U + i * V_);
      }
    }
  }

  /// Row i of O += M U
  void add_later_outputs(std::int64_t i) const {
    common::add_rows(i + 1, V_, m_.M + (first_ + i) * kChunk, 1, m_.U, m_.O + i * V_);
  }

  void update_state() const {
    for (std::int64_t c = 0; c < K_; ++c) {
      float* row = head_.state() + c * V_;
      for (std::int64_t j = 0; j < V_; ++j) row[j] *= m_.decay[c];
      common::add_rows(count_, V_, m_.Kr + c, K_, m_.U, row);
    }
  }

  const Head& head_;
  const Head::Block& block_;
  const ChunkMemory& m_;
  std::int64_t K_, V_, first_, count_;
};

/// Loads a block, whose g becomes exp(g), and makes the rows of (I + A)^-1 and M of its chunks.
template <Rule rule>
Head::Block prepare_block(const Head& head, const ChunkMemory& memory, std::int64_t begin) {
  const Head::Block block = head.load_block(begin);
  for (std::int64_t i = 0; i < block.count * head.call().K; ++i) block.g[i] = std::exp(block.g[i]);
  for (std::int64_t first = 0; first < block.count; first += kChunk)
    Chunk<rule>(head, block, memory, first).pair_up();
  if constexpr (rule == Rule::delta) {
    const TensorView rows(memory.A, DType::f32, {1, block.count, 1, kChunk});
    head.stages().solve_tril({.A = rows, .out = rows});
  }
  return block;
}

}  // namespace fla::recurrence
