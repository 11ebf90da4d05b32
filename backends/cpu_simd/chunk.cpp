// The chunked form: the tokens of a head in chunks of C, a chunk as a handful of matrix products.
//
// With G_i the log2-decay of a channel from the chunk's start to token i, and m the chunk's middle token:
//
//   z_i = G_i - G_m        x_i = 2^z_i        y_i = 2^-z_i
//
//   A = -beta k x          B = scale q x      Y = k y        a row for each token, K wide
//   L = A Y^T (i > j)      M = B Y^T (i >= j)
//   U = beta v + A S + L U                                   forward substitution; v with the additive rule,
//                                                            for which A and L are zeros
//   O = B S + M U
//   S = gamma S + (gamma Y)^T U
//
// S is kept in the frame of the middle token: 2^G_m times the true state. gamma takes it from this chunk's
// frame to the next one's.
//
// One worker does one head (or a part of its columns):
//
//   inputs     q k g v of C tokens, any dtype, any stride          read once, prefetched to L2 a chunk ahead
//   operands   [K + C][2 C]: a row per channel (A | B),            L1
//              then a row per token (L | M)
//   keys       [C][K], twice: Y and gamma Y                        L1
//   state      [panel][K][width]: columns in panels                L2, a panel at a time in L1
//              of 1 to 3 vectors
//   values, u  [panel][C][width], [C][width]                       L1
//
//             state panel
//             .---------.
//   channels  |    S    |    operands        U, O and the state of one panel are made back to back, each a
//             |         |    .-------.       sweep of kTileRows x width accumulators over the channels: the
//             '---------'    | A | B |       L (M) rows lie behind the A (B) rows, so "A S" simply continues
//   tokens    |    U    |    | L | M |       into "L U".
//             '---------'    '-------'
//
// That is exact while no channel decays by more than kSafeBits within half a chunk: then no x, y or product
// of them leaves the range of f32, and S, U and O are no larger than in the recurrence. A chunk in which one
// does (a hard reset, say) goes the exact way: frame of the chunk's start, every decay the product of the
// factors of its tokens, so that none is a quotient. L and M of pair (i, j) then meet at the boundary given
// by the highest bit in which i and j differ. So does a chunk with a gate that is NaN, or with a q or k so
// large that x or y takes it out of the range. A chunk that grows by more than kSafeBits (gates above zero),
// and one with few tokens, is stepped through token by token.
//
// A token's output depends on no later token, whatever that holds, NaN included. Nor do its bits, but on the
// gates of its chunk, which decide how that is computed.

#include "backends/cpu_simd/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu_simd/chunk.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu_simd/carver.h"
#include "backends/cpu_simd/denormals.h"
#include "backends/cpu_simd/kernels.h"
#include "backends/cpu_simd/prefetch.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "backends/cpu_simd/inputs-inl.h"
#include "backends/cpu_simd/state_blocks-inl.h"
#include "backends/cpu_simd/step-inl.h"
#include "backends/cpu_simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr float kSafeBits =
    3.75f * kChunk;  // half a chunk at -5 nats a token is 3.6 bits a token of the chunk
constexpr int kFewTokens = 3 * kChunk / 8;

std::size_t padded_channels(std::size_t K) { return round_up(K, std::max(kLanes, 8)); }

// ---- Columns in panels

struct Panel {
  std::size_t column;
  int vectors;
};

// Panels of three vectors, and of two where three do not go in: a tile of one vector waits for its own
// latency.
class Panels {
 public:
  explicit Panels(std::size_t V) {
    const std::size_t vectors = (V + kLanes - 1) / kLanes;
    threes_ = vectors / 3;
    const std::size_t rest = vectors % 3;
    if (rest == 1 && threes_ > 0) {
      --threes_;
      twos_ = 2;
    } else {
      twos_ = rest / 2;
      ones_ = rest % 2;
    }
  }

  std::size_t count() const { return threes_ + twos_ + ones_; }
  Panel at(std::size_t i) const {
    if (i < threes_) return {3 * kLanes * i, 3};
    return {(3 * threes_ + 2 * (i - threes_)) * kLanes, i < threes_ + twos_ ? 2 : 1};
  }

 private:
  std::size_t threes_ = 0, twos_ = 0, ones_ = 0;
};

// ---- Working memory

enum class Path { fast, exact, stepwise };

struct Gates {  // of one chunk; two of them, since the frame of the next chunk is needed to leave this one
  const float* rows[kChunk];
  float* buffer;       // [C][channels]: rows that could not be read as they stand
  float* z;            // [C][channels], or [C][a vector] where all channels have one gate
  bool scalar;         // they have
  float *lead, *tail;  // log2-decay from the start to the middle, and from there to the end
  Path path;
};

struct Workspace {
  std::size_t channels, columns;
  float *state, *operands, *keys, *decayed_keys, *values, *u, *out, *gamma, *zeros, *bias;
  float *q_buffer, *k_buffer, *v_buffer;
  float* key_sum;  // of the tokens so far, of a call that normalizes
  float* exact;    // 7 times [C][channels]
  Step step;
  Gates gates[2];

  Workspace(Carver& carver, std::size_t K, std::size_t V)
      : channels(padded_channels(K)), columns(round_up(V, kLanes)) {
    constexpr std::size_t C = kChunk;
    state = carver.take(channels * columns);
    operands = carver.take((channels + C) * kOperandRow);
    keys = carver.take(C * channels);
    values = carver.take(C * columns);
    u = carver.take(C * kTileVectors * kLanes);
    out = carver.take(C * columns);
    gamma = carver.take(channels);
    zeros = carver.take(std::max(channels, columns));
    for (Gates& g : gates) {
      g.z = carver.take(C * channels);
      g.lead = carver.take(channels);
      g.tail = carver.take(channels);
      g.buffer = carver.take(C * channels);
    }
    q_buffer = carver.take(C * channels);
    k_buffer = carver.take(C * channels);
    v_buffer = carver.take(C * columns);
    decayed_keys = carver.take(C * channels);
    bias = carver.take(channels);
    key_sum = carver.take(channels);
    step.decay = carver.take(channels);
    step.key = carver.take(channels);
    step.probe = carver.take(channels);
    step.decayed_q = carver.take(channels);
    exact = carver.take(7 * C * channels);
  }
};

std::size_t chunk_scratch(std::int64_t K, std::int64_t V) {
  Carver carver(nullptr);
  Workspace(carver, static_cast<std::size_t>(K), static_cast<std::size_t>(V));
  return carver.used();
}

// q and k of a chunk: rows as floats (zeros behind the last token) and what they are to be multiplied with.
struct Tokens {
  int count;
  const float *q[kChunk], *k[kChunk];
  float q_factor[kChunk], k_factor[kChunk];
  HWY_ALIGN_MAX float beta[HWY_MAX(kChunk, kLanes)];
  float divisor[kChunk];  // of the outputs of a call that normalizes
  bool delta;             // or additive
};

HWY_NOINLINE void read_tokens(const TokenReader& reader, const Workspace& w, std::int64_t first, int count,
                              Tokens& t) {
  t.count = count;
  t.delta = reader.call.rule == Rule::delta;
  if (t.delta) {
    reader.betas(first, static_cast<std::size_t>(count), t.beta);
  } else {
    std::fill_n(t.beta, count, 1.f);
  }
  for (int i = 0; i < count; ++i) {
    t.q[i] = reader.q_row(first + i, w.q_buffer + static_cast<std::size_t>(i) * w.channels);
    t.k[i] = reader.k_row(first + i, w.k_buffer + static_cast<std::size_t>(i) * w.channels);
    t.q_factor[i] = reader.norm_factor(t.q[i]) * reader.call.scale;
    t.k_factor[i] = reader.norm_factor(t.k[i]);
    if (reader.call.normalize)
      t.divisor[i] = divisor_of(DF(), t.q[i], t.k[i], t.q_factor[i], t.k_factor[i], w.channels, w.key_sum);
  }
  for (int i = count; i < kChunk; ++i) {
    t.q[i] = t.k[i] = w.zeros;
    t.q_factor[i] = t.k_factor[i] = t.beta[i] = 0.f;
  }
}

// ---- Gates: z, lead, tail and the way the chunk has to go

// One vector of channels at a time: sums backwards from the middle to the start, then forwards to the end.
template <bool kWhole>
HWY_INLINE Path scan_rows(DF d, int count, float unit, std::size_t channels, Gates& gates) {
  const int middle = kWhole ? kChunk / 2 : std::min(kChunk / 2, count);
  const float* rows[kChunk];
  for (int i = 0; i < count; ++i) rows[i] = gates.rows[i];
  const VF units = hn::Set(d, unit), zero = hn::Zero(d), limit = hn::Set(d, kSafeBits);
  auto tame = hn::Eq(zero, zero), bounded = tame;
  float* HWY_RESTRICT z = gates.z;
  for (std::size_t c = 0; c < channels; c += kLanes) {
    VF growth = zero;  // what the gates above zero add up to
    VF sum = zero;
    FLA_UNROLL for (int i = kChunk / 2 - 1; i >= 0; --i) {
      if (!kWhole && i >= middle) continue;
      const VF g = hn::LoadU(d, rows[i] + c);
      hn::Store(sum, d, z + static_cast<std::size_t>(i) * channels + c);
      sum = hn::NegMulAdd(g, units, sum);
      growth = hn::Add(growth, hn::Max(g, zero));
    }
    const VF lead = hn::Neg(sum);
    sum = zero;
    FLA_UNROLL for (int i = kChunk / 2; i < kChunk; ++i) {
      if (kWhole || i < count) {
        const VF g = hn::LoadU(d, rows[i] + c);
        sum = hn::MulAdd(g, units, sum);
        growth = hn::Add(growth, hn::Max(g, zero));
      }
      hn::Store(sum, d, z + static_cast<std::size_t>(i) * channels + c);
    }
    hn::Store(lead, d, gates.lead + c);
    hn::Store(sum, d, gates.tail + c);
    growth = hn::Mul(growth, units);
    tame = hn::And(tame, hn::Le(growth, limit));
    // No partial sum of a half is further below zero than the half's sum less what grew. NaN is not bounded.
    bounded = hn::And(bounded, hn::Le(hn::Sub(growth, lead), limit));
    bounded = hn::And(bounded, hn::Le(hn::Sub(growth, sum), limit));
  }
  for (int i = middle; i < kChunk / 2; ++i) {
    std::memset(z + static_cast<std::size_t>(i) * channels, 0, channels * sizeof(float));
  }
  if (count <= kFewTokens || !hn::AllTrue(d, tame)) return Path::stepwise;
  return hn::AllTrue(d, bounded) ? Path::fast : Path::exact;
}

HWY_NOINLINE void scan_gates(DF d, const TokenReader& reader, std::int64_t first, int count,
                             std::size_t channels, Gates& gates) {
  gates.scalar = reader.call.gate_kind != GateKind::channel;
  const std::size_t scanned = gates.scalar ? kLanes : channels;
  for (int i = 0; i < count; ++i) {
    gates.rows[i] =
        reader.gate_row(first + i, gates.buffer + static_cast<std::size_t>(i) * channels, scanned);
  }
  const float unit = reader.gate_unit();
  gates.path = count == kChunk ? scan_rows<true>(d, count, unit, scanned, gates)
                               : scan_rows<false>(d, count, unit, scanned, gates);
  const VF lead = hn::Load(d, gates.lead), tail = hn::Load(d, gates.tail);
  for (std::size_t c = scanned; c < channels; c += kLanes) {
    hn::Store(lead, d, gates.lead + c);
    hn::Store(tail, d, gates.tail + c);
  }
}

// Copies a gate that all channels share to every channel of its row.
HWY_NOINLINE void widen_rows(DF d, const Gates& gates, int count, std::size_t channels) {
  if (!gates.scalar) return;
  for (int i = 0; i < count; ++i) {
    float* row = gates.buffer + static_cast<std::size_t>(i) * channels;
    const VF g = hn::Load(d, row);
    for (std::size_t c = kLanes; c < channels; c += kLanes) hn::Store(g, d, row + c);
  }
}

// ---- Operands of a chunk, the fast way

// Times a factor per channel, unless all channels share one gate.
template <bool kScalar>
HWY_INLINE VF by_channel(VF scaled, VF factor) {
  if constexpr (kScalar) {
    return scaled;
  } else {
    return hn::Mul(scaled, factor);
  }
}

// `next` is the lead of the following chunk: zero where it starts in its own frame, or where there is none.
template <bool kScalar>
HWY_NOINLINE void make_operands(DF d, const Tokens& t, const Gates& gates, const float* HWY_RESTRICT next,
                                Workspace& w) {
  const std::size_t channels = w.channels;
  const auto gamma_at = [&](std::size_t c) HWY_ATTR {
    return exp2(d, hn::Add(hn::Load(d, gates.tail + c), hn::Load(d, next + c)));
  };
  const VF first_gamma = gamma_at(0);
  for (std::size_t c = 0; c < channels; c += kLanes)
    hn::Store(kScalar ? first_gamma : gamma_at(c), d, w.gamma + c);
  for (int i = 0; i < kChunk; i += 4) {
    VF a_factor[4], b_factor[4], y_factor[4];
    FLA_UNROLL for (int r = 0; r < 4; ++r) {
      a_factor[r] = hn::Set(d, -t.beta[i + r] * t.k_factor[i + r]);
      b_factor[r] = hn::Set(d, t.q_factor[i + r]);
      y_factor[r] = hn::Set(d, t.k_factor[i + r]);
    }
    const float *k0 = t.k[i], *k1 = t.k[i + 1], *k2 = t.k[i + 2], *k3 = t.k[i + 3];
    const float *q0 = t.q[i], *q1 = t.q[i + 1], *q2 = t.q[i + 2], *q3 = t.q[i + 3];
    float* HWY_RESTRICT operands = w.operands + i;
    const std::size_t z_row = kScalar ? kLanes : channels;
    const float* HWY_RESTRICT z_rows = gates.z + static_cast<std::size_t>(i) * z_row;
    VF z[4], x[4], y[4];
    const auto exponentials_at = [&](std::size_t c) HWY_ATTR {
      FLA_UNROLL for (int r = 0; r < 4; ++r) z[r] =
          hn::Load(d, z_rows + static_cast<std::size_t>(r) * z_row + c);
      exp2_both<4>(d, z, x, y);
    };
    VF end_factor[4];         // of keys that decay to the end of the chunk
    if constexpr (kScalar) {  // all factors of a row are one
      exponentials_at(0);
      FLA_UNROLL for (int r = 0; r < 4; ++r) {
        a_factor[r] = hn::Mul(a_factor[r], x[r]);
        b_factor[r] = hn::Mul(b_factor[r], x[r]);
        y_factor[r] = hn::Mul(y_factor[r], y[r]);
        end_factor[r] = hn::Mul(y_factor[r], first_gamma);
      }
    }
    float* HWY_RESTRICT keys = w.keys + static_cast<std::size_t>(i) * channels;
    float* HWY_RESTRICT decayed_keys = w.decayed_keys + static_cast<std::size_t>(i) * channels;
    for (std::size_t c = 0; c < channels; c += kLanes) {
      if constexpr (!kScalar) exponentials_at(c);
      const VF gamma = hn::Load(d, w.gamma + c);
      VF rows[4] = {hn::LoadU(d, k0 + c), hn::LoadU(d, k1 + c), hn::LoadU(d, k2 + c), hn::LoadU(d, k3 + c)};
      FLA_UNROLL for (int r = 0; r < 4; ++r) {
        const VF key = by_channel<kScalar>(hn::Mul(rows[r], y_factor[r]), y[r]);
        hn::Store(key, d, keys + static_cast<std::size_t>(r) * channels + c);
        hn::Store(hn::Mul(kScalar ? rows[r] : key, kScalar ? end_factor[r] : gamma), d,
                  decayed_keys + static_cast<std::size_t>(r) * channels + c);
      }
      if (t.delta) {
        FLA_UNROLL for (int r = 0; r < 4; ++r) {
          rows[r] = by_channel<kScalar>(hn::Mul(rows[r], a_factor[r]), x[r]);
        }
        store_transposed(d, rows[0], rows[1], rows[2], rows[3], operands + c * kOperandRow, kOperandRow);
      }
      rows[0] = hn::LoadU(d, q0 + c);
      rows[1] = hn::LoadU(d, q1 + c);
      rows[2] = hn::LoadU(d, q2 + c);
      rows[3] = hn::LoadU(d, q3 + c);
      FLA_UNROLL for (int r = 0; r < 4; ++r) {
        rows[r] = by_channel<kScalar>(hn::Mul(rows[r], b_factor[r]), x[r]);
      }
      store_transposed(d, rows[0], rows[1], rows[2], rows[3], operands + c * kOperandRow + kChunk,
                       kOperandRow);
    }
  }
  pair_products<0>(d, w.operands, channels, w.keys);
}

// Whether a token's row, times its factor, is finite and yet leaves the range of f32 when it is brought into
// the middle token's frame.
bool too_large_for_a_frame(const float* row, float factor, std::size_t K) {
  constexpr float kLargest = 0x1p127f / (1 << static_cast<int>(kSafeBits));
  float largest = 0.f;
  for (std::size_t c = 0; c < K; ++c) {
    if (const float size = std::fabs(row[c] * factor); std::isfinite(size)) largest = std::max(largest, size);
  }
  return largest >= kLargest;
}

// Whether the operands that were made the fast way hold. Each of them is a factor of a pair of a token with
// itself, which is finite unless one of them is not or the pair is too large anyway: that is told from rows
// that are not finite by looking at them.
HWY_NOINLINE bool left_the_range(const Tokens& t, std::size_t K, const Workspace& w) {
  const float* pairs = w.operands + w.channels * kOperandRow;
  for (int i = 0; i < t.count; ++i) {
    const float* pair = pairs + i * kOperandRow + i;
    if (std::isfinite(pair[0]) && std::isfinite(pair[kChunk])) continue;
    if (too_large_for_a_frame(t.q[i], t.q_factor[i], K) || too_large_for_a_frame(t.k[i], t.k_factor[i], K) ||
        too_large_for_a_frame(t.k[i], t.beta[i] * t.k_factor[i], K)) {
      return true;
    }
  }
  return false;
}

// ---- Operands of a chunk, the exact way

// What decays over several tokens is multiplied by the product of their factors. None of them exceeds 1 (but
// for gates above zero, which are tame here) and nothing is divided by one: what underflows is nothing in
// truth too.
struct ExactRows {             // [C][channels] each
  float *decay, *a, *b, *key;  // 2^gate, -beta k, scale q, k
  float *a_decayed, *b_decayed, *key_decayed;
};

// sums[j][i] = left[i] . right[j] over the channels
template <int kRight>
HWY_INLINE void dot_products(DF d, std::size_t channels, const float* const (&left)[4],
                             const float* const (&right)[kRight], float (&sums)[kRight][4]) {
  const D4 d4;
  Tile<4, kRight> tile;
  FLA_UNROLL for (int i = 0; i < 4; ++i) {
    FLA_UNROLL for (int j = 0; j < kRight; ++j) tile[i][j] = hn::Zero(d);
  }
  for (std::size_t c = 0; c < channels; c += kLanes) {
    VF rights[kRight];
    FLA_UNROLL for (int j = 0; j < kRight; ++j) rights[j] = hn::Load(d, right[j] + c);
    FLA_UNROLL for (int i = 0; i < 4; ++i) {
      const VF l = hn::Load(d, left[i] + c);
      FLA_UNROLL for (int j = 0; j < kRight; ++j) tile[i][j] = hn::MulAdd(l, rights[j], tile[i][j]);
    }
  }
  FLA_UNROLL for (int j = 0; j < kRight; ++j) {
    hn::StoreU(sums_of_lanes(d, tile[0][j], tile[1][j], tile[2][j], tile[3][j]), d4, sums[j]);
  }
}

// sums[i] = left[i] . right[i] over the channels
HWY_INLINE void dot_products_by_row(DF d, std::size_t channels, const float* const (&left)[8],
                                    const float* const (&right)[8], float (&sums)[8]) {
  const D4 d4;
  VF row[8];
  FLA_UNROLL for (int i = 0; i < 8; ++i) row[i] = hn::Zero(d);
  for (std::size_t c = 0; c < channels; c += kLanes) {
    FLA_UNROLL for (int i = 0; i < 8; ++i) {
      row[i] = hn::MulAdd(hn::Load(d, left[i] + c), hn::Load(d, right[i] + c), row[i]);
    }
  }
  hn::StoreU(sums_of_lanes(d, row[0], row[1], row[2], row[3]), d4, sums);
  hn::StoreU(sums_of_lanes(d, row[4], row[5], row[6], row[7]), d4, sums + 4);
}

// Pairs whose tokens differ in bit kHalf and in no higher one meet at the boundary between them: A and B
// decay from there to their token, keys from their token to there.
template <int kHalf>
HWY_INLINE void decay_to_boundaries(DF d, const ExactRows& rows, std::size_t channels) {
  for (std::size_t c = 0; c < channels; c += kLanes) {
    const auto at = [&](float* base, int i)
                        HWY_ATTR { return base + static_cast<std::size_t>(i) * channels + c; };
    FLA_UNROLL for (int boundary = kHalf; boundary < kChunk; boundary += 2 * kHalf) {
      VF product = hn::Set(d, 1.f);
      FLA_UNROLL for (int i = boundary; i < boundary + kHalf; ++i) {
        product = hn::Mul(product, hn::Load(d, at(rows.decay, i)));
        hn::Store(hn::Mul(product, hn::Load(d, at(rows.a, i))), d, at(rows.a_decayed, i));
        hn::Store(hn::Mul(product, hn::Load(d, at(rows.b, i))), d, at(rows.b_decayed, i));
      }
      product = hn::Set(d, 1.f);
      FLA_UNROLL for (int j = boundary - 1; j >= boundary - kHalf; --j) {
        hn::Store(hn::Mul(product, hn::Load(d, at(rows.key, j))), d, at(rows.key_decayed, j));
        if (j > boundary - kHalf) product = hn::Mul(product, hn::Load(d, at(rows.decay, j)));
      }
    }
  }
}

HWY_NOINLINE void exact_pairs(DF d, const ExactRows& rows, std::size_t channels, float* HWY_RESTRICT pairs) {
  static_assert(kChunk == 8);
  const auto row = [channels](const float* base, int i)
                       HWY_ATTR { return base + static_cast<std::size_t>(i) * channels; };

  decay_to_boundaries<4>(d, rows, channels);
  for (int j = 0; j < 4; j += 2) {
    const float* const keys[2] = {row(rows.key_decayed, j), row(rows.key_decayed, j + 1)};
    for (const float* left : {rows.a_decayed, rows.b_decayed}) {
      float sums[2][4];
      dot_products<2>(d, channels, {row(left, 4), row(left, 5), row(left, 6), row(left, 7)}, keys, sums);
      float* to = pairs + j * kOperandRow + (left == rows.a_decayed ? 4 : kChunk + 4);
      std::memcpy(to, sums[0], sizeof sums[0]);
      std::memcpy(to + kOperandRow, sums[1], sizeof sums[1]);
    }
  }

  decay_to_boundaries<2>(d, rows, channels);
  for (int j = 0; j < kChunk; j += 4) {
    const int i = j + 2;
    float sums[2][4];
    dot_products<2>(d, channels,
                    {row(rows.a_decayed, i), row(rows.a_decayed, i + 1), row(rows.b_decayed, i),
                     row(rows.b_decayed, i + 1)},
                    {row(rows.key_decayed, j), row(rows.key_decayed, j + 1)}, sums);
    for (int n = 0; n < 2; ++n) {
      float* to = pairs + (j + n) * kOperandRow + i;
      std::memcpy(to, sums[n], 2 * sizeof(float));
      std::memcpy(to + kChunk, sums[n] + 2, 2 * sizeof(float));
    }
  }

  decay_to_boundaries<1>(d, rows, channels);
  const float *left[8], *right[8];
  float sums[8];
  for (int n = 0; n < 4; ++n) {
    left[n] = row(rows.a_decayed, 2 * n + 1);
    left[n + 4] = row(rows.b_decayed, 2 * n + 1);
    right[n] = right[n + 4] = row(rows.key, 2 * n);
  }
  dot_products_by_row(d, channels, left, right, sums);
  for (int n = 0; n < 4; ++n) {
    float* to = pairs + 2 * n * kOperandRow + 2 * n + 1;
    to[0] = sums[n];
    to[kChunk] = sums[n + 4];
  }

  for (int i = 0; i < kChunk; ++i) {
    left[i] = row(rows.b, i);
    right[i] = row(rows.key, i);
  }
  dot_products_by_row(d, channels, left, right, sums);
  for (int i = 0; i < kChunk; ++i) pairs[i * kOperandRow + kChunk + i] = sums[i];
}

HWY_NOINLINE void make_exact_operands(DF d, const Tokens& t, const Gates& gates, float unit,
                                      const float* HWY_RESTRICT next, Workspace& w) {
  const std::size_t channels = w.channels, size = kChunk * channels;
  ExactRows rows;
  rows.decay = w.exact;
  rows.a = rows.decay + size;
  rows.b = rows.a + size;
  rows.key = rows.b + size;
  rows.a_decayed = rows.key + size;
  rows.b_decayed = rows.a_decayed + size;
  rows.key_decayed = rows.b_decayed + size;

  const float* g[kChunk];
  for (int i = 0; i < kChunk; ++i) g[i] = i < t.count ? gates.rows[i] : w.zeros;
  const VF units = hn::Set(d, unit);
  for (std::size_t c = 0; c < channels; c += kLanes) {
    const auto at = [&](float* base, int i)
                        HWY_ATTR { return base + static_cast<std::size_t>(i) * channels + c; };
    // From the start of the chunk to the tokens.
    VF product = hn::Set(d, 1.f);
    FLA_UNROLL for (int i = 0; i < kChunk; i += 4) {
      VF decay[4], a[4], b[4];
      FLA_UNROLL for (int r = 0; r < 4; ++r) decay[r] = hn::Mul(hn::LoadU(d, g[i + r] + c), units);
      exp2<4>(d, decay);
      FLA_UNROLL for (int r = 0; r < 4; ++r) {
        const VF k = hn::LoadU(d, t.k[i + r] + c), q = hn::LoadU(d, t.q[i + r] + c);
        a[r] = t.delta ? hn::Mul(k, hn::Set(d, -t.beta[i + r] * t.k_factor[i + r])) : hn::Zero(d);
        b[r] = hn::Mul(q, hn::Set(d, t.q_factor[i + r]));
        hn::Store(decay[r], d, at(rows.decay, i + r));
        hn::Store(a[r], d, at(rows.a, i + r));
        hn::Store(b[r], d, at(rows.b, i + r));
        hn::Store(hn::Mul(k, hn::Set(d, t.k_factor[i + r])), d, at(rows.key, i + r));
        product = hn::Mul(product, decay[r]);
        a[r] = hn::Mul(product, a[r]);
        b[r] = hn::Mul(product, b[r]);
      }
      float* to = w.operands + c * kOperandRow + i;
      store_transposed(d, a[0], a[1], a[2], a[3], to, kOperandRow);
      store_transposed(d, b[0], b[1], b[2], b[3], to + kChunk, kOperandRow);
    }
    // From the tokens to the end of the chunk and on into the next frame.
    product = exp2(d, hn::Load(d, next + c));
    FLA_UNROLL for (int i = kChunk - 1; i >= 0; --i) {
      hn::Store(hn::Mul(product, hn::Load(d, at(rows.key, i))), d, at(w.decayed_keys, i));
      product = hn::Mul(product, hn::Load(d, at(rows.decay, i)));
    }
    hn::Store(product, d, w.gamma + c);
  }
  exact_pairs(d, rows, channels, w.operands + channels * kOperandRow);
}

// ---- Products of a chunk with the columns of a panel

// The rows that the next chunk reads, and those of `o` that this one writes; gates are read a chunk earlier.
using ChunkPrefetch = RowPrefetch<kChunk, 5>;
ChunkPrefetch prefetch_rows(const Head& head, std::size_t K, std::size_t first_column,
                            std::size_t last_column, std::int64_t token, int steps) {
  const std::int64_t next = token + kChunk, after = next + kChunk;
  const std::size_t v_size = size_of(head.v.dtype), o_size = size_of(head.o_dtype);
  const std::size_t columns = last_column - first_column;
  return ChunkPrefetch(
      {{{head.q.row, head.q.step, K * size_of(head.q.dtype), next, head.tokens},
        {head.k.row, head.k.step, K * size_of(head.k.dtype), next, head.tokens},
        {head.v.row + first_column * v_size, head.v.step, columns * v_size, next, head.tokens},
        {head.g.row, head.g.step, head.gates * size_of(head.g.dtype), after, head.tokens},
        {head.o + first_column * o_size, head.o_step, columns * o_size, token, head.tokens}}},
      steps);
}

constexpr int kPanelSteps = 2 * (kChunk / kTileRows) + 1;

// With the additive rule U is V.
template <int kVectors>
HWY_NOINLINE void run_panel(DF d, Workspace& w, bool delta, std::size_t column, ChunkPrefetch& prefetch) {
  float* state = w.state + w.channels * column;
  const float* values = w.values + kChunk * column;
  const float* u = delta ? w.u : values;
  for (int first = 0; first < kChunk; first += kTileRows) {
    prefetch.advance();
    if (delta) solve_u<kVectors>(d, w.operands, values, state, w.channels, w.u, first);
  }
  for (int first = 0; first < kChunk; first += kTileRows) {
    prefetch.advance();
    make_output<kVectors>(d, w.operands, state, w.channels, u, w.out + column, w.columns, first);
  }
  prefetch.advance();
  update_state<kVectors>(d, state, w.channels, w.decayed_keys, u, w.gamma);
}

// The rows of the state, times 2^exponents.
HWY_NOINLINE void scale_state(DF d, const float* HWY_RESTRICT exponents, float sign, Workspace& w,
                              const Panels& panels, std::size_t first_panel, std::size_t last_panel) {
  for (std::size_t c = 0; c < w.channels; c += kLanes) {
    hn::Store(exp2(d, hn::Mul(hn::Set(d, sign), hn::Load(d, exponents + c))), d, w.gamma + c);
  }
  for (std::size_t p = first_panel; p < last_panel; ++p) {
    const Panel panel = panels.at(p);
    const std::size_t width = static_cast<std::size_t>(panel.vectors) * kLanes;
    float* state = w.state + w.channels * panel.column;
    for (std::size_t k = 0; k < w.channels; ++k) {
      for (std::size_t c = 0; c < width; ++c) state[k * width + c] *= w.gamma[k];
    }
  }
}

template <int kVectors>
HWY_INLINE void step_panel(DF d, Workspace& w, std::size_t column, int token) {
  constexpr std::size_t kWidth = kVectors * kLanes;
  float* state = w.state + w.channels * column;
  Ahead nothing;
  const float* values = w.values + kChunk * column + static_cast<std::size_t>(token) * kWidth;
  step_read<1, kVectors>(d, w.step, state, kWidth, w.channels, values, 1.f, w.u,
                         w.out + static_cast<std::size_t>(token) * w.columns + column, nothing);
  step_write<1, kVectors>(d, w.step, state, state, kWidth, w.channels, values, w.u, nullptr, nothing);
}

HWY_NOINLINE void run_stepwise(DF d, const Tokens& t, const Gates& gates, float unit, const float* next,
                               Workspace& w, const Panels& panels, std::size_t first_panel,
                               std::size_t last_panel) {
  for (int i = 0; i < t.count; ++i) {
    prepare_step(d, t.delta ? Rule::delta : Rule::additive, t.q[i], t.k[i], gates.rows[i], unit,
                 t.q_factor[i], t.k_factor[i], t.beta[i], w.channels, w.step);
    for (std::size_t p = first_panel; p < last_panel; ++p) {
      const Panel panel = panels.at(p);
      switch (panel.vectors) {
        case 3: step_panel<3>(d, w, panel.column, i); break;
        case 2: step_panel<2>(d, w, panel.column, i); break;
        default: step_panel<1>(d, w, panel.column, i);
      }
    }
  }
  if (next != w.zeros) scale_state(d, next, 1.f, w, panels, first_panel, last_panel);
}

// beta v into panels
HWY_NOINLINE void stage_values(DF d, const Head& head, const Tokens& t, std::int64_t first, std::size_t V,
                               Workspace& w, const Panels& panels, std::size_t first_panel,
                               std::size_t last_panel) {
  const float* rows[kChunk];
  VF beta[kChunk];
  FLA_UNROLL for (int i = 0; i < kChunk; ++i) {
    rows[i] = i < t.count ? as_floats(head.v.at(first + i), head.v.dtype, V, w.columns,
                                      w.v_buffer + static_cast<std::size_t>(i) * w.columns)
                          : w.zeros;
    beta[i] = hn::Set(d, t.beta[i]);
  }
  for (std::size_t p = first_panel; p < last_panel; ++p) {
    const Panel panel = panels.at(p);
    const std::size_t width = static_cast<std::size_t>(panel.vectors) * kLanes;
    float* HWY_RESTRICT to = w.values + kChunk * panel.column;
    for (std::size_t c = 0; c < width; c += kLanes) {
      FLA_UNROLL for (int i = 0; i < kChunk; ++i) {
        hn::Store(hn::Mul(beta[i], hn::LoadU(d, rows[i] + panel.column + c)), d,
                  to + static_cast<std::size_t>(i) * width + c);
      }
    }
  }
}

void chunk_head(const RecurrenceCall& call, const CallExtras& extras, const HeadTask& task, float* scratch) {
  const DenormalsAreZero denormals;
  const DF d;
  const std::size_t K = static_cast<std::size_t>(call.K), V = static_cast<std::size_t>(call.V);
  const Head head = head_of(call, extras, task.sequence, task.value_head);
  Carver carver(scratch);
  Workspace w(carver, K, V);

  const Panels panels(V);
  const std::size_t part = static_cast<std::size_t>(task.part), parts = static_cast<std::size_t>(task.parts);
  const std::size_t first_panel = panels.count() * part / parts,
                    last_panel = panels.count() * (part + 1) / parts;
  if (first_panel == last_panel) return;
  const std::size_t first_column = panels.at(first_panel).column;
  const std::size_t last_column = last_panel == panels.count() ? V : panels.at(last_panel).column;
  if (head.skipped) return store_zeros(head, first_column, last_column);

  std::memset(w.zeros, 0, std::max(w.channels, w.columns) * sizeof(float));
  if (call.normalize) std::memset(w.key_sum, 0, w.channels * sizeof(float));
  if (call.rule == Rule::additive)  // A stays zero
    std::memset(w.operands, 0, w.channels * kOperandRow * sizeof(float));
  const TokenReader reader{call, head, K, w.channels, bias_row(head, K, w.channels, w.bias)};
  const float unit = reader.gate_unit();
  const auto tokens_from = [&](std::int64_t first) HWY_ATTR {
    return static_cast<int>(std::min<std::int64_t>(kChunk, head.tokens - first));
  };

  if (head.tokens > 0) scan_gates(d, reader, 0, tokens_from(0), w.channels, w.gates[0]);
  for (std::size_t c = 0; c < w.channels; c += kLanes) {  // into the frame of the first chunk
    const VF lead =
        head.tokens > 0 && w.gates[0].path == Path::fast ? hn::Load(d, w.gates[0].lead + c) : hn::Zero(d);
    hn::Store(exp2(d, lead), d, w.gamma + c);
  }
  for (std::size_t p = first_panel; p < last_panel; ++p) {
    const Panel panel = panels.at(p);
    const std::size_t width = static_cast<std::size_t>(panel.vectors) * kLanes;
    load_state_block(head.initial_state, call.state_v_first, K, V, panel.column, width, w.gamma,
                     w.state + w.channels * panel.column, w.channels);
  }

  const auto store_state = [&](float* to) HWY_ATTR {
    for (std::size_t p = first_panel; p < last_panel; ++p) {
      const Panel panel = panels.at(p);
      const std::size_t width = static_cast<std::size_t>(panel.vectors) * kLanes;
      store_state_block(w.state + w.channels * panel.column, width, call.state_v_first, K, V, panel.column,
                        to);
    }
  };
  for (std::int64_t first = 0, chunk = 0; first < head.tokens; first += kChunk, ++chunk) {
    Gates &gates = w.gates[chunk % 2], &following = w.gates[(chunk + 1) % 2];
    const float* next = w.zeros;
    if (first + kChunk < head.tokens) {
      scan_gates(d, reader, first + kChunk, tokens_from(first + kChunk), w.channels, following);
      if (following.path == Path::fast) next = following.lead;
    }
    // A state that is kept is in no chunk's frame, nor is one that another call would begin with.
    float* const kept = head.kept_after(first + kChunk);
    const bool is_cut = kept || (task.cut_every > 0 && (first + kChunk) % task.cut_every == 0);
    const float* const frame = next;
    if (is_cut) next = w.zeros;

    Tokens t;
    read_tokens(reader, w, first, tokens_from(first), t);
    stage_values(d, head, t, first, V, w, panels, first_panel, last_panel);
    if (gates.path == Path::stepwise) {
      widen_rows(d, gates, t.count, w.channels);
      run_stepwise(d, t, gates, unit, next, w, panels, first_panel, last_panel);
    } else {
      if (gates.path == Path::fast) {
        if (gates.scalar) {
          make_operands<true>(d, t, gates, next, w);
        } else {
          make_operands<false>(d, t, gates, next, w);
        }
        if (left_the_range(t, K, w)) {
          gates.path = Path::exact;
          scale_state(d, gates.lead, -1.f, w, panels, first_panel, last_panel);
        }
      }
      if (gates.path == Path::exact) {
        widen_rows(d, gates, t.count, w.channels);
        make_exact_operands(d, t, gates, unit, next, w);
      }
      ChunkPrefetch prefetch = prefetch_rows(head, K, first_column, last_column, first,
                                             static_cast<int>(last_panel - first_panel) * kPanelSteps);
      for (std::size_t p = first_panel; p < last_panel; ++p) {
        const Panel panel = panels.at(p);
        switch (panel.vectors) {
          case 3: run_panel<3>(d, w, t.delta, panel.column, prefetch); break;
          case 2: run_panel<2>(d, w, t.delta, panel.column, prefetch); break;
          default: run_panel<1>(d, w, t.delta, panel.column, prefetch);
        }
      }
    }
    for (int i = 0; i < t.count; ++i) {
      float* row = w.out + static_cast<std::size_t>(i) * w.columns + first_column;
      if (call.normalize) divide_row(d, row, last_column - first_column, t.divisor[i]);
      store_row(row, head.o_dtype, last_column - first_column,
                head.o + (first + i) * head.o_step +
                    static_cast<std::ptrdiff_t>(first_column * size_of(head.o_dtype)));
    }
    if (!is_cut || t.count < kChunk) continue;
    if (kept) store_state(kept);
    if (frame != w.zeros) scale_state(d, frame, 1.f, w, panels, first_panel, last_panel);
  }

  if (head.final_state) store_state(head.final_state);
}

constexpr ChunkKernel kChunkKernel{chunk_scratch, chunk_head};

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();
#endif  // a target with vectors

#if HWY_ONCE
#include "backends/cpu_simd/target_cases.h"

namespace fla::cpu_simd {

FLA_DEFINE_KERNEL_OF_TARGET(ChunkKernel, chunk_kernel, kChunkKernel)

}  // namespace fla::cpu_simd
#endif
