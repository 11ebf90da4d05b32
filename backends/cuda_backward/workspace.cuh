#pragma once

#include "backends/cuda_backward/segments.cuh"
#include "backends/cuda_backward/tiles.cuh"
#include "fla/ops/common/cuda/memory_parts.h"
#include "fla/ops/recurrence/cuda/backward/scales.cuh"
#include "fla/ops/recurrence/cuda/pairs.cuh"

/// The gradients of the delta rule in chunks of 64 tokens, on tensor cores, in f16 with sums in f32. With the
/// operators of chunk.cuh, E = scale dO, Z = V - K~ S and dS' the gradient of the state that a chunk leaves,
///
///     U  = T2 Z              T2 = T diag(beta)       T = (I + diag(beta) N)^-1
///     dU = M^T E + Kr dS'    dY = T^T dU             dV = diag(beta) dY
///     dM = E U^T             dN = -dV U^T            dbeta_i = dY_i (Z - N U)_i
///     dQ~ = E S^T            dK~ = -dV S^T           dKr = U dS'^T
///
/// and the state and its gradient go through a chunk by operators that no value is part of:
///
///     K^ = T2^T Kr        S' = diag(gamma) S + K^^T (V - K~ S)
///     Q^ = Q~ - M T2 K~   dS = diag(gamma) dS' + Q^^T E - K~^T K^ dS'
///
/// Where gates have a number a token, K~, Kr and Q~ are k and q times numbers of tokens, and what carries the
/// state leaves X and dY for the gradients. With P = N T, which is strictly lower triangular,
///
///     X  = Z - P diag(beta) Z          U  = diag(beta) X          S' = gamma S + Kr^T U
///     dY = dU - P^T diag(beta) dU      dbeta_i = dY_i X_i         dS = gamma dS' + Q~^T E - K~^T dV
///
///     prepare                  operators, all chunks at once; the largest of v and of E
///     carry                    S and dS' of every chunk: a block has 64 values of a head
///     gradients                all chunks at once; where heads share keys, the last of them adds dq and dk
///     add_parts                dA_log and ddt_bias
namespace fla::cuda_backward {

/// dq and dk of a head that shares its keys, as a block's threads have them, in f16.
using KeyParts = uint4[2 * kTokens * kHead / 8];

/// What a chunk and value head has in the workspace.
struct ChunkMemory {
  union {
    PairTile M;
    float products[2 * kTokens];  ///< afterwards, where heads share keys: q dq and k dk of tokens
  };
  union {
    StateTile S;     ///< as the chunk begins
    KeyParts parts;  ///< afterwards, where heads share keys: before the norm
  };
  StateTile dS;  ///< as it ends
  /// Where gates have a number a channel: gamma, and 2^G of the first token, which Kt and Qh have to be
  /// multiplied by. Afterwards parts of sums over tokens: gradients of gates' offsets, and of their rates.
  float factors[2][kHead];
};
/// And where gates have a number a channel.
struct ChannelMemory {
  KeyTile Kt;  ///< K~ / first
  KeyTile Qh;  ///< Q^ / first
  KeyTile Kh;  ///< K^
  PairTile N, T;
};
inline constexpr int kCarryThreads = 256, kCarryValues = 64;
/// What a segment and value head has, where sequences are cut (segments.cuh).
struct SegmentMemory {
  /// R: forward, and back; of blocks of values, as their threads have it.
  float4 ends[2][kHead / kCarryValues][kHead / 8][kCarryThreads / 2];
  StateTile P;  ///< transposed: a row is a channel of the state that the segment begins with
};
/// Or, where gates have a number a token.
struct alignas(16) TokenNumbers {
  float G[kTokens];                           ///< sums of log2-decays
  float front[kTokens], back[kTokens];        ///< decays from the chunk's front, and to its back
  float beta[kTokens], beta_slopes[kTokens];  ///< and what gradients of beta are multiplied by
  float written[kTokens], read[kTokens];      ///< beta times `back`, and times `behind_first`
  std::uint16_t behind_first[kTokens];        ///< decays from the chunk's first token, in f16
};
struct alignas(16) TokenGates {
  float raw[kTokens];           ///< as they came
  float rate, bias, unused[2];  ///< what made decays of them
};
struct TokenMemory {
  KeyTile X, dY;
  PairTile P;
  TokenNumbers numbers;
  TokenGates gates;
};
using KeyNorms = float[2][kTokens];  ///< inverses of those of q and k

/// What a chunk and key head has, where gates have a number a token: rows with norm 1.
struct KeyMemory {
  SplitRows q, k;
  KeyNorms norms;
};

/// The largest numbers of a sequence and head, bits of their absolute values.
struct alignas(16) Largest {
  std::uint32_t values;     ///< of v and initial_state
  std::uint32_t gradients;  ///< of E and dht
  std::uint32_t unused[2];
};

struct BackwardMemory {
  ChunkMemory* chunks;      ///< [place][HV]
  ChannelMemory* channels;  ///< [place][HV], or
  TokenMemory* tokens;      ///< [place][HV], and
  KeyMemory* keys;          ///< [place][HV / group]
  SegmentMemory* segments;  ///< [place / kLeastSegment][HV]
  Largest* largest;         ///< [N][HV]
  /// [place][HV / group], behind `largest`: how many heads of a group have left their dq and dk.
  std::uint32_t* done;
  std::int64_t places;
  std::int64_t counters;  ///< words of `largest` and `done` together; all are 0 at first
  std::size_t bytes = 0;

  BackwardMemory(const RecurrenceCall& call, char* memory)
      : places(chunk_places<kTokens>(call)),
        counters(4 * call.N * call.HV + (call.group > 1 ? places * (call.HV / call.group) : 0)) {
    MemoryParts cut{memory};
    cut.next(chunks, places * call.HV);
    const bool by_channel = call.gate_kind == GateKind::channel;
    cut.next(channels, by_channel ? places * call.HV : 0);
    cut.next(tokens, by_channel ? 0 : places * call.HV);
    cut.next(keys, by_channel ? 0 : places * (call.HV / call.group));
    cut.next(segments, may_be_cut(call) ? (places / kLeastSegment + 1) * call.HV : 0);
    std::uint32_t* words;
    cut.next(words, counters);
    largest = reinterpret_cast<Largest*>(words), done = words + 4 * call.N * call.HV;
    bytes = cut.bytes;
  }
};

/// Inputs that have 16 bits. The usual ones are all bf16, and where gates have a number a channel no heads
/// share keys: kernels need not look that up, nor hold registers for the other case.
enum class Inputs { usual, any };

inline Inputs inputs_of(const BackwardCall& back) {
  const RecurrenceCall& call = back.call;
  bool usual = true;
  for (const Rows* rows : {&call.q, &call.k, &call.v, &back.do_}) usual &= rows->dtype == DType::bf16;
  if (call.gate_kind == GateKind::channel) usual &= call.g.dtype == DType::bf16 && call.group == 1;
  return usual ? Inputs::usual : Inputs::any;
}
template <Inputs inputs>
__device__ DType dtype_of(const Rows& rows) {
  return inputs == Inputs::usual ? DType::bf16 : rows.dtype;
}

/// Log2-decays below this count as this: 2^-200 is 0 in f32, and sums over a chunk keep their small terms
/// beside it.
inline constexpr float kStrongest = -200;

/// The largest numbers become about 1/16: sums of f16 products then have room to grow by 2^20, and what is
/// 2^-20 of the largest still counts.
using Scale = cuda::Scale<4>;
struct Scales {
  Scale values, gradients;

  __device__ explicit Scales(const Largest& largest) : values(largest.values), gradients(largest.gradients) {}
  /// Two powers whose product is that of both `up`, which may be beyond f32: the second is 1 but for
  /// extremes.
  __device__ float2 up() const {
    const auto exponent = [](float power) { return static_cast<int>(__float_as_uint(power) >> 23) - 127; };
    const auto power = [](int e) { return __uint_as_float(static_cast<std::uint32_t>(127 + e) << 23); };
    const int all = exponent(values.up) + exponent(gradients.up), most = min(max(all, -100), 100);
    return {power(most), power(min(max(all - most, -126), 126))};
  }
  __device__ Scales(const RecurrenceCall& call, const BackwardMemory& memory, std::int64_t n, int head)
      : Scales(memory.largest[n * call.HV + head]) {}
};

}  // namespace fla::cuda_backward
