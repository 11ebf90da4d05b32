#pragma once

#include "backends/cuda_backward/workspace.cuh"

/// q, k and the decays of a chunk in registers: a warp has 16 channels of all tokens.
///
/// The decay of a pair of tokens (i, j) is split into f_i f_j at a boundary between them: of the highest bit
/// in which i and j differ. Both factors are at most 1 whatever the gates are, so f16 holds them.
///
///     half 32   tokens 0..31 | 32..63       half 4    0..3 | 4..7    8..11 | 12..15    …
///     half 16   0..15 | 16..31    …         half 2    0, 1 | 2, 3    …
///     half 8    0..7 | 8..15    …           half 1    0 | 1    …     both in one thread
namespace fla::cuda_backward {

/// Log2-decays below this count as this: 2^-200 is 0 in f32, and sums over a chunk keep their small terms
/// beside it.
inline constexpr float kStrongest = -200;

/// Floats from one token to the next in tiles of f32, which are written by channels and read by slices, or
/// the other way round.
inline constexpr int kSliceRow = kHead + 4;
using FloatTile = float[kTokens * kSliceRow];

struct KeyMemory {
  RowTile q, k;  ///< as they come
};
struct GateMemory {
  FloatTile G;            ///< sums of log2-decays, from token 0 and from token 32 on
  float halves[kHead];    ///< of tokens 0 .. 31
  float tokens[kTokens];  ///< the log2-decays of gates that have a number a token
};
using KeyNorms = float[2][kTokens];  ///< inverses of those of q and k

/// A thread has a channel and 32 tokens.
struct ChannelHalf {
  int channel = static_cast<int>(threadIdx.x) % kHead,
      first = static_cast<int>(threadIdx.x) / kHead * (kTokens / 2);
};

/// sigmoid(x) and its slope in few instructions, for gates with a lower bound: both follow from e^-|x|.
struct FastSigmoid {
  float power, inverse;
  bool positive;

  __device__ explicit FastSigmoid(float x)
      : power(exp2_approximately(-kLog2e * fabsf(x))),
        inverse(reciprocal_approximately(1 + power)),
        positive(x >= 0) {}
  __device__ float value() const { return positive ? inverse : power * inverse; }
  __device__ float slope() const { return power * inverse * inverse; }
};

/// The raw gates of a thread's channel. Tokens beyond the sequence may read any number.
struct RawGates {
  const std::uint16_t* narrow;  ///< in shared memory, of the first token
  const float* wide;            ///< where the call has f32
  std::int64_t step;
  DType dtype;
  int count;

  __device__ RawGates(const RecurrenceCall& call, int head, const TokenRange& range, const PlainRows& rows,
                      const ChannelHalf& own)
      : narrow(rows.at + own.first * kHead + own.channel),
        wide(static_cast<const float*>(call.g.data) + range.batch * call.g.batch +
             (range.first + own.first) * call.g.token + head * call.g.head + own.channel * call.g.channel),
        step(call.g.token),
        dtype(call.g.dtype),
        count(own.channel < call.K ? min(range.count - own.first, kTokens / 2) : 0) {}

  __device__ float operator[](int t) const {
    if (dtype == DType::bf16) return __uint_as_float(std::uint32_t{narrow[t * kHead]} << 16);
    if (dtype == DType::f16) return to_float(narrow[t * kHead], DType::f16);
    return t < count ? wide[t * step] : 0;
  }
};

struct Keys {
  Packed q, k;    ///< normalized; without scale
  Slice G;        ///< sums of log2-decays, up to the token and including it
  float last[2];  ///< those of the last token, of channels g and g + 8
  int channel;    ///< the warp's first one

  /// All threads of a block call this. `raw` gets the raw gates, if they have 16 bits and one number per
  /// channel, and keeps them; the other memory is free after the next barrier. more() issues further copies
  /// while q and k arrive.
  template <bool by_channel, class More>
  __device__ Keys(std::bool_constant<by_channel>, const RecurrenceCall& call, int head,
                  const TokenRange& range, KeyMemory& memory, PlainRows& raw, GateMemory& gates,
                  KeyNorms& norms, More&& more)
      : channel(static_cast<int>(threadIdx.x) / 32 * 16) {
    const int key_head = head / call.group;
    if constexpr (by_channel) {
      if (is_16_bit(call.g.dtype)) copy_input<kBlockThreads>(call.g, head, 0, call.K, range, raw);
    }
    copy_input<kBlockThreads>(call.q, key_head, 0, call.K, range, memory.q);
    copy_input<kBlockThreads>(call.k, key_head, 0, call.K, range, memory.k);
    __pipeline_commit();
    more();
    __pipeline_commit();
    if constexpr (!by_channel) find_token_gates(call, head, range, gates);
    __pipeline_wait_prior(1);
    __syncthreads();
    find_norms(call, memory, norms);
    if constexpr (by_channel) {
      sum_gates(call, head, range, raw, gates);
      __syncthreads();
      take_gates(gates);
    } else {
      take_token_gates(gates);
      __syncthreads();
    }
    q = take(memory.q, norms[0], call.q.dtype);
    k = take(memory.k, norms[1], call.k.dtype);
  }

  /// 2^G of the first token, of channels g and g + 8.
  __device__ float2 first_decays() const {
    const int from = threadIdx.x % 32 & ~3;
    return {exp2_decay(__shfl_sync(~0u, G[0][0], from)), exp2_decay(__shfl_sync(~0u, G[0][2], from))};
  }

  /// 2^G, or 2^(G - G of the first token) with `from_first`.
  template <bool from_first>
  __device__ Packed decays_from_front() const {
    const int from = threadIdx.x % 32 & ~3;
    const float first[2] = {from_first ? __shfl_sync(~0u, G[0][0], from) : 0,
                            from_first ? __shfl_sync(~0u, G[0][2], from) : 0};
    Slice f;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) f[n][i] = exp2_decay(G[n][i] - first[i / 2]);
    }
    return packed(f);
  }
  __device__ Packed decays_to_back() const {
    Slice f;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) f[n][i] = exp2_decay(last[i / 2] - G[n][i]);
    }
    return packed(f);
  }

  /// The decays of tile n's tokens to the boundary in the middle of their 2 * half tokens, half at least 8.
  template <int half>
  __device__ void decays_to_boundary(int n, Fragment& f) const {
    constexpr int kTiles = half / 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // The last token before the boundary, whichever lane has it.
      const float at =
          __shfl_sync(~0u, G[n / kTiles * kTiles + kTiles / 2 - 1][2 * r + 1], threadIdx.x % 32 | 3);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float x = G[n][2 * r + i] - at;
        f[2 * r + i] = exp2_decay(n % kTiles >= kTiles / 2 ? x : -x);
      }
    }
  }

  /// The same of half 4 and 2.
  __device__ void decays_within_tile(int half, int n, Fragment& f) const {
    const int lane = threadIdx.x % 32, from = half == 4 ? (lane & ~3) | 1 : lane & ~1;
    const float sign = lane % 4 * 2 & half ? 1 : -1;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float at = __shfl_sync(~0u, G[n][2 * r + 1], from);
#pragma unroll
      for (int i = 0; i < 2; ++i) f[2 * r + i] = exp2_decay(sign * (G[n][2 * r + i] - at));
    }
  }

  /// The same of half 1.
  __device__ void decays_of_neighbours(int n, Fragment& f) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) f[i] = i % 2 ? exp2_decay(G[n][i] - G[n][i - 1]) : 1;
  }

 private:
  /// Gates that have a number a channel.
  __device__ static void sum_gates(const RecurrenceCall& call, int head, const TokenRange& range,
                                   const PlainRows& raw, GateMemory& memory) {
    constexpr int kAtOnce = 4;
    const ChannelHalf own;
    const RawGates gates(call, head, range, raw, own);
    const float rate = gate_rate(call, head), offset = gate_bias(call, head, own.channel);
    float* const to = memory.G + own.first * kSliceRow + own.channel;
    float sum = 0;
    const auto sum_all = [&](auto&& decays) {
#pragma unroll 1
      for (int t = 0; t < kTokens / 2; t += kAtOnce) {
        float x[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) x[i] = gates[t + i];
        decays(x);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const float gate = x[i] < kStrongest ? kStrongest : x[i];
          sum += t + i < gates.count ? gate : 0;
          to[(t + i) * kSliceRow] = sum;
        }
      }
    };
    if (call.gate == Gate::bounded) {
      const float bound = call.lower_bound * kLog2e;
      sum_all([&](float(&x)[kAtOnce]) {
#pragma unroll
        for (float& each : x) each = bound * FastSigmoid(rate * (each + offset)).value();
      });
    } else {
      const float bias[kAtOnce] = {offset, offset, offset, offset};
      sum_all([&](float(&x)[kAtOnce]) { log2_decays(call, rate, bias, x); });
    }
    if (own.first == 0) memory.halves[own.channel] = sum;
  }

  /// Gates that have a number a token: a thread has one.
  __device__ static void find_token_gates(const RecurrenceCall& call, int head, const TokenRange& range,
                                          GateMemory& memory) {
    const int t = threadIdx.x;
    if (t >= kTokens) return;
    const Rows& rows = call.g;
    const float bias[1] = {gate_bias(call, head, 0)};
    float x[1] = {t < range.count
                      ? load(rows.data, rows.dtype,
                             range.batch * rows.batch + (range.first + t) * rows.token + head * rows.head)
                      : 0};
    log2_decays(call, gate_rate(call, head), bias, x);
    memory.tokens[t] = t >= range.count ? 0 : x[0] < kStrongest ? kStrongest : x[0];
  }
  __device__ void take_token_gates(const GateMemory& memory) {
    const int p = threadIdx.x % 4;
    float sum = 0;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      sum += memory.tokens[t];
      float(&own)[4] = G[t / 8];
      if (t % 8 / 2 == p) own[t % 2] = own[t % 2 + 2] = sum;
    }
    last[0] = last[1] = sum;
  }

  __device__ void take_gates(const GateMemory& memory) {
    const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int c = channel + g + 8 * r;
      const float half = memory.halves[c];
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float sum = memory.G[(8 * n + 2 * p + i) * kSliceRow + c];
          G[n][2 * r + i] = n < kTokenTiles / 2 ? sum : half + sum;
        }
      }
      last[r] = half + memory.G[(kTokens - 1) * kSliceRow + c];
    }
  }

  /// Four threads have a token.
  __device__ static void find_norms(const RecurrenceCall& call, const KeyMemory& memory, KeyNorms& norms) {
    static_assert(kBlockThreads == 4 * kTokens);
    const int t = threadIdx.x / 4;
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      const RowTile& tile = which ? memory.k : memory.q;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 words =
            *reinterpret_cast<const uint4*>(tile.piece(t, 32 * i + static_cast<int>(threadIdx.x) % 4 * 8));
        for (const std::uint32_t word : {words.x, words.y, words.z, words.w}) {
          const float2 x = unpack(word, which ? call.k.dtype : call.q.dtype);
          sum += x.x * x.x + x.y * x.y;
        }
      }
      sum = reduce<4>(sum);
      if (threadIdx.x % 4 == 0) norms[which][t] = rsqrtf(sum + 1e-6f);
    }
  }

  __device__ Packed take(const RowTile& tile, const float (&norms)[kTokens], DType dtype) const {
    Packed x;
    const int p = threadIdx.x % 4;
#pragma unroll
    for (int s = 0; s < kTokenTiles / 2; ++s) {
      const uint4 words = left_of_transposed(tile, channel, 16 * s);
      x.at[2 * s][0] = words.x, x.at[2 * s][1] = words.y;
      x.at[2 * s + 1][0] = words.z, x.at[2 * s + 1][1] = words.w;
    }
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      const int t = 8 * n + 2 * p;
      const float2 factor{norms[t], norms[t + 1]};
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float2 y = unpack(x.at[n][r], dtype);
        x.at[n][r] = pack_f16(y.x * factor.x, y.y * factor.y);
      }
    }
    return x;
  }
};

}  // namespace fla::cuda_backward
