#pragma once

#include "backends/cuda_backward/workspace.cuh"

/// q, k and the decays of a chunk in registers: a warp has 16 channels of all tokens, or of half of them.
///
/// The decay of a pair of tokens (i, j) is split into f_i f_j at a boundary between them: of the highest bit
/// in which i and j differ. Both factors are at most 1 whatever the gates are, so f16 holds them.
///
///     half 32   tokens 0..31 | 32..63       half 4    0..3 | 4..7    8..11 | 12..15    …
///     half 16   0..15 | 16..31    …         half 2    0, 1 | 2, 3    …
///     half 8    0..7 | 8..15    …           half 1    0 | 1    …     both in one thread
///
/// Where 16 tokens decay by no more than 96 bits, whatever their channel, the pairs within 32 tokens need
/// one level: f_i = 2^(G_i - r) and f_j = 2^(r - G_j), r the sum before token 16 of them. bf16 has that
/// range, and sums of such products stay in that of f32. Up to 8 bits f16 is enough, and is better.
namespace fla::cuda_backward {

/// Floats from one token to the next in tiles of f32, which are written by channels and read by slices, or
/// the other way round.
inline constexpr int kSliceRow = kHead + 4;
using FloatTile = float[kTokens * kSliceRow];

/// How much 16 tokens of a chunk decay at most.
enum class Amount { little = 0, some = 1, much = 3 };
inline constexpr float kLittle = 8, kSome = 96;  // bits

struct RawKeys {
  RowTile q, k;  ///< as they come
};
/// A thread has a channel and a part of its tokens.
template <int threads>
struct ChannelPart {
  static constexpr int kParts = threads / kHead, kOwn = kTokens / kParts;
  int channel = static_cast<int>(threadIdx.x) % kHead, part = static_cast<int>(threadIdx.x) / kHead,
      first = part * kOwn;
};
struct GateMemory {
  FloatTile G;                           ///< sums of log2-decays within a part of the tokens (ChannelPart)
  float totals[4][kHead];                ///< of the parts
  alignas(16) std::uint8_t amounts[16];  ///< of the warps' channels
};

/// The slope of sigmoid at x in few instructions, for gates with a lower bound.
__device__ inline float fast_sigmoid_slope(float x) {
  const float power = exp2_approximately(-kLog2e * fabsf(x)), inverse = reciprocal_approximately(1 + power);
  return power * inverse * inverse;
}

/// The raw gates of a thread's channel. Tokens beyond the sequence may read any number.
template <Inputs inputs>
struct RawGates {
  const std::uint16_t* narrow;  ///< in shared memory, of the first token
  const float* wide;            ///< where the call has f32
  std::int64_t step;
  DType dtype;
  int count;

  template <class Part>
  __device__ RawGates(const RecurrenceCall& call, int head, const TokenRange& range, const PlainRows& rows,
                      const Part& own)
      : narrow(rows.at + own.first * kHead + own.channel),
        wide(static_cast<const float*>(call.g.data) + range.batch * call.g.batch +
             (range.first + own.first) * call.g.token + head * call.g.head + own.channel * call.g.channel),
        step(call.g.token),
        dtype(dtype_of<inputs>(call.g)),
        count(own.channel < call.K ? min(range.count - own.first, Part::kOwn) : 0) {}

  __device__ float operator[](int t) const {
    if (dtype == DType::bf16) return __uint_as_float(std::uint32_t{narrow[t * kHead]} << 16);
    if (dtype == DType::f16) return to_float(narrow[t * kHead], DType::f16);
    return t < count ? wide[t * step] : 0;
  }
};

/// What makes a decay of a raw gate, of the thread's channel: the constructor issues the loads.
struct ChannelGate {
  float rate, bias;

  __device__ ChannelGate(const RecurrenceCall& call, int head)
      : rate(gate_rate(call, head)), bias(gate_bias(call, head, static_cast<int>(threadIdx.x) % kHead)) {}
};

template <int tiles, Inputs inputs>
struct Keys {
  static constexpr int kThreads = kBlockThreads * kTokenTiles / tiles;

  Packed<tiles> q, k;  ///< normalized; without scale
  Slice<tiles> G;      ///< sums of log2-decays, up to the token and including it
  /// Those of the last token before the chunk's middle, and of the last one: of channels g and g + 8.
  float middle[2], last[2];
  int channel, first;            ///< the warp's first channel and token
  Amount amount = Amount::much;  ///< of the whole chunk

  /// All threads of a block call this. `raw` gets the raw gates, if they have 16 bits, and keeps them; the
  /// other memory is free after the next barrier. more() issues further copies while q and k arrive.
  template <class More>
  __device__ Keys(const RecurrenceCall& call, int head, const TokenRange& range, RawKeys& memory,
                  PlainRows& raw, GateMemory& gates, KeyNorms& norms, More&& more)
      : channel(static_cast<int>(threadIdx.x) / 32 % (kHead / 16) * 16),
        first(static_cast<int>(threadIdx.x) / kBlockThreads * (8 * tiles)) {
    const int key_head = head / call.group;
    const ChannelGate gate(call, head);
    if (is_16_bit(dtype_of<inputs>(call.g))) copy_input<kThreads>(call.g, head, 0, call.K, range, raw);
    copy_input<kThreads>(call.q, key_head, 0, call.K, range, memory.q);
    copy_input<kThreads>(call.k, key_head, 0, call.K, range, memory.k);
    __pipeline_commit();
    more();
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    find_norms(call, memory, norms);
    sum_gates(call, head, range, raw, gate, gates);
    __syncthreads();
    take_gates(gates);
    q = take(memory.q, norms[0], dtype_of<inputs>(call.q));
    k = take(memory.k, norms[1], dtype_of<inputs>(call.k));
  }

  /// So that decays and f32 numbers are made again where they are used.
  __device__ void forget_what_follows() {
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) forget(G[n][i]);
#pragma unroll
      for (int r = 0; r < 2; ++r) forget(q.at[n][r]), forget(k.at[n][r]);
    }
  }

  /// q or k from where put() left it.
  __device__ Packed<tiles> taken(const KeyTile& tile) const {
    Packed<tiles> x;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) x.at[n][r] = word_of(tile, channel, first, n, r);
    }
    return x;
  }
  /// Takes both, so that registers need not hold them meanwhile, and forgets what follows from G.
  __device__ void take_again(const KeyTile& of_q, const KeyTile& of_k) {
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) forget(G[n][i]);
    }
    q = taken(of_q), k = taken(of_k);
  }

  /// Factors of the pairs within 32 tokens: q and k of the later token, k of the earlier one.
  struct CloseFactors {
    Packed<tiles> q, k, earlier;
    float middle[tiles / 4][2];  ///< G before the middle of each 32 tokens, of channels g and g + 8
  };
  template <bool wide>
  __device__ CloseFactors close_factors() const {
    using F = Format<wide>;
    CloseFactors factors;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float& before = factors.middle[n / 4][r];
        if (n % 4 == 0) before = __shfl_sync(~0u, G[n + 1][2 * r + 1], threadIdx.x % 32 | 3);
        const float2 own_q = unpack_f16(q.at[n][r]), own_k = unpack_f16(k.at[n][r]);
        const float x = G[n][2 * r] - before, y = G[n][2 * r + 1] - before;
        const float fx = exp2_approximately(x), fy = exp2_approximately(y);
        factors.q.at[n][r] = F::pack(fx * own_q.x, fy * own_q.y);
        factors.k.at[n][r] = F::pack(fx * own_k.x, fy * own_k.y);
        factors.earlier.at[n][r] =
            F::pack(exp2_approximately(-x) * own_k.x, exp2_approximately(-y) * own_k.y);
      }
    }
    return factors;
  }

  /// 2^G of the first token, of channels g and g + 8.
  __device__ float2 first_decays() const {
    const int from = threadIdx.x % 32 & ~3;
    return {exp2_decay(__shfl_sync(~0u, G[0][0], from)), exp2_decay(__shfl_sync(~0u, G[0][2], from))};
  }

  /// 2^G, or 2^(G - G of the first token) with `from_first`.
  template <bool from_first>
  __device__ Packed<tiles> decays_from_front() const {
    static_assert(tiles == kTokenTiles || !from_first);
    const int from = threadIdx.x % 32 & ~3;
    const float start[2] = {from_first ? __shfl_sync(~0u, G[0][0], from) : 0,
                            from_first ? __shfl_sync(~0u, G[0][2], from) : 0};
    Slice<tiles> f;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) f[n][i] = exp2_decay(G[n][i] - start[i / 2]);
    }
    return packed(f);
  }
  __device__ Packed<tiles> decays_to_back() const {
    Slice<tiles> f;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) f[n][i] = exp2_decay(last[i / 2] - G[n][i]);
    }
    return packed(f);
  }

  /// The decays of tile n's tokens to the boundary in the middle of their 2 * half tokens, half at least 8.
  template <int half>
  __device__ void decays_to_boundary(int n, Fragment& f) const {
    constexpr int kTiles = half / 4;
    const bool later = half == 32 ? (first | 8 * n) >= 32 : n % kTiles >= kTiles / 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float at = middle[r];
      if constexpr (half < 32)  // the last token before the boundary, whichever lane has it
        at = __shfl_sync(~0u, G[n / kTiles * kTiles + kTiles / 2 - 1][2 * r + 1], threadIdx.x % 32 | 3);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float x = G[n][2 * r + i] - at;
        f[2 * r + i] = exp2_decay(later ? x : -x);
      }
    }
  }

  template <int half>
  __device__ Packed<tiles> decays() const {
    Slice<tiles> f;
#pragma unroll
    for (int n = 0; n < tiles; ++n) decays_to_boundary<half>(n, f[n]);
    return packed(f);
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
                                   const PlainRows& raw, const ChannelGate& gate, GateMemory& memory) {
    constexpr int kAtOnce = 4;
    const ChannelPart<kThreads> own;
    const RawGates<inputs> gates(call, head, range, raw, own);
    const float rate = gate.rate, offset = gate.bias;
    float* const to = memory.G + own.first * kSliceRow + own.channel;
    float sum = 0, before = 0, most = 0;  // before: that of the tokens before the last 16
    const auto sum_all = [&](auto&& decays) {
#pragma unroll 1
      for (int t = 0; t < own.kOwn; t += kAtOnce) {
        float x[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) x[i] = gates[t + i];
        decays(x);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          sum += t + i < gates.count ? x[i] : 0;
          to[(t + i) * kSliceRow] = sum;
        }
        if ((t + kAtOnce) % 16 == 0) most = fmaxf(most, fabsf(sum - before)), before = sum;
      }
    };
    const float bound = call.lower_bound * kLog2e;
    if (call.gate == Gate::bounded && bound >= kStrongest) {  // the usual gate, in few instructions
      const float slope = -kLog2e * rate, shift = slope * offset;
      sum_all([&](float(&x)[kAtOnce]) {
#pragma unroll
        for (float& each : x)
          each = bound * reciprocal_approximately(1 + exp2_approximately(slope * each + shift));
      });
    } else {
      const float bias[kAtOnce] = {offset, offset, offset, offset};
      sum_all([&](float(&x)[kAtOnce]) {
        log2_decays(call, rate, bias, x);
#pragma unroll
        for (float& each : x) each = each < kStrongest ? kStrongest : each;
      });
    }
    memory.totals[own.part][own.channel] = sum;
    const bool some = __any_sync(~0u, most > kLittle), much = __any_sync(~0u, most > kSome);
    if (threadIdx.x % 32 == 0)
      memory.amounts[threadIdx.x / 32] = static_cast<std::uint8_t>(much   ? Amount::much
                                                                   : some ? Amount::some
                                                                          : Amount::little);
  }
  __device__ void take_gates(const GateMemory& memory) {
    using Part = ChannelPart<kThreads>;
    constexpr int kOwnParts = 8 * tiles / Part::kOwn;
    const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
    const auto* const amounts = reinterpret_cast<const std::uint32_t*>(memory.amounts);
    std::uint32_t all = amounts[0] | amounts[1];
    if constexpr (kThreads / 32 > 8) all |= amounts[2] | amounts[3];
    all |= all >> 16, all |= all >> 8;
    amount = static_cast<Amount>(all & 3);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int c = channel + g + 8 * r;
      float before[kOwnParts], sum = 0;
#pragma unroll
      for (int part = 0; part < Part::kParts; ++part) {
#pragma unroll
        for (int i = 0; i < kOwnParts; ++i) {
          if (part == first / Part::kOwn + i) before[i] = sum;
        }
        if (part == Part::kParts / 2) middle[r] = sum;
        sum += memory.totals[part][c];
      }
      last[r] = sum;
#pragma unroll
      for (int n = 0; n < tiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          G[n][2 * r + i] =
              before[8 * n / Part::kOwn] + memory.G[(first + 8 * n + 2 * p + i) * kSliceRow + c];
      }
    }
  }

  /// Four threads have a token.
  __device__ static void find_norms(const RecurrenceCall& call, const RawKeys& memory, KeyNorms& norms) {
    static_assert(kBlockThreads == 4 * kTokens);
    const int t = static_cast<int>(threadIdx.x) / 4 % kTokens;
#pragma unroll 1
    for (int which = static_cast<int>(threadIdx.x) / kBlockThreads; which < 2;
         which += kThreads / kBlockThreads) {
      const RowTile& tile = which ? memory.k : memory.q;
      float2 sums{};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 words =
            *reinterpret_cast<const uint4*>(tile.piece(t, 32 * i + static_cast<int>(threadIdx.x) % 4 * 8));
        for (const std::uint32_t word : {words.x, words.y, words.z, words.w}) {
          const float2 x = unpack(word, dtype_of<inputs>(which ? call.k : call.q));
          sums.x += x.x * x.x, sums.y += x.y * x.y;
        }
      }
      const float sum = reduce<4>(sums.x + sums.y);
      if (threadIdx.x % 4 == 0) norms[which][t] = rsqrtf(sum + 1e-6f);
    }
  }

  __device__ Packed<tiles> take(const RowTile& tile, const float (&norms)[kTokens], DType dtype) const {
    Packed<tiles> x;
    const int p = threadIdx.x % 4;
#pragma unroll
    for (int s = 0; s < tiles / 2; ++s) {
      const uint4 words = left_of_transposed(tile, channel, first + 16 * s);
      x.at[2 * s][0] = words.x, x.at[2 * s][1] = words.y;
      x.at[2 * s + 1][0] = words.z, x.at[2 * s + 1][1] = words.w;
    }
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      const int t = first + 8 * n + 2 * p;
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
