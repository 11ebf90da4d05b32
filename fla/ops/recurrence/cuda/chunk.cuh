#pragma once

#include <type_traits>

#include "fla/ops/recurrence/cuda/states.cuh"

/// The chunked form of the recurrence, as its two kernels share it. Chunks are cut from each sequence by
/// itself, so a sequence gives the same bits alone and in any batch. Within a chunk, with G_i the sum of the
/// log-decays of tokens 0..i:
///
///     Q~_i = q_i 2^G_i     K~_i = k_i 2^G_i     Kr_i = k_i 2^(G_last - G_i)             exponents <= 0
///     M_ij = sum_k q_ik k_jk 2^(G_i - G_j)_k   (i >= j)       N the same with k for q   (i > j)
///     T2 = (I + diag(beta) N)^-1 diag(beta)
///     U = T2 (V - K~ S)          O = Q~ S + M U          S <- diag(2^G_last) S + Kr^T U
///
/// With Rule::additive U is V, and nothing needs K~, N and T2. Where a token has one decay for all channels,
/// K~, Q~ and Kr are k and q times a number a token.
///
/// A first kernel makes the operators of every chunk, all chunks at once (chunk_prepare.cuh for a decay a
/// channel, chunk_pairs.cuh for one a token); chunk_state carries the state through them.
namespace fla::cuda {

/// Whether a token has one decay, or one per channel.
enum class Decay { token, channel };

/// Tokens of a chunk: fewer with many channels, for shared memory's sake.
__host__ __device__ constexpr int chunk_size(int K) { return K <= 128 ? 32 : 16; }

/// An array member that exists only if `there`.
template <bool there, class Array>
struct Maybe {
  alignas(16) Array at;
};
template <class Array>
struct Maybe<false, Array> {};

template <int KP>
using KeyRows = float[chunk_size(KP)][KP];
template <int KP>
using KeyPairs = float[chunk_size(KP)][chunk_size(KP)];

/// k and q of a chunk and key head in the workspace, normalised and scaled. For one decay per token, where
/// value heads share them. Channels are padded to KP, tokens to C.
template <int KP>
struct ChunkKeys {
  KeyRows<KP> K, Q;
};

/// What chunk_state reads of a chunk and value head, besides V, with one decay per channel.
template <int KP, Rule rule>
struct ChannelOperators {
  Maybe<rule == Rule::delta, KeyRows<KP>> K;         ///< K~
  Maybe<true, KeyRows<KP>> Q;                        ///< Q~
  Maybe<true, float[chunk_size(KP) / 4][KP][4]> Kr;  ///< token 4 i + j in [i][channel][j]
  Maybe<true, KeyPairs<KP>> M;                       ///< zeros above the diagonal
  Maybe<rule == Rule::delta, KeyPairs<KP>> T2;       ///< likewise
  Maybe<true, float[KP]> gamma;                      ///< 2^G_last

  /// Of tokens t to t + 3.
  __device__ void write_Kr(int t, int channel, float4 x) {
    *reinterpret_cast<float4*>(Kr.at[t / 4][channel]) = x;
  }
};

/// The same with one decay per token; q and k are in ChunkKeys.
template <int KP, Rule rule>
struct TokenOperators {
  Maybe<true, KeyPairs<KP>> M;                           ///< zeros above the diagonal
  Maybe<rule == Rule::delta, KeyPairs<KP>> T2;           ///< likewise
  Maybe<true, float[2][chunk_size(KP)]> front_and_back;  ///< 2^G_i, and 2^(G_last - G_i)
};

template <int KP, Decay decay, Rule rule>
using ChunkOperators =
    std::conditional_t<decay == Decay::channel, ChannelOperators<KP, rule>, TokenOperators<KP, rule>>;

/// Room for chunk i of sequence n. With packed sequences a place is left over after each of them, so that
/// where a sequence's chunks lie follows from its own entry of cu_seqlens alone.
template <int C>
__device__ std::int64_t chunk_place(const RecurrenceCall& call, const Sequence& sequence, std::int64_t n,
                                    std::int64_t i) {
  return call.cu_seqlens.data ? sequence.begin / C + n + i : n * ((call.T + C - 1) / C) + i;
}

/// The workspace of a call.
template <int KP, Decay decay, Rule rule>
struct ChunkWorkspace {
  using Operators = ChunkOperators<KP, decay, rule>;
  static constexpr bool kBackward = false;
  static constexpr std::int64_t first = 0;  ///< place
  ChunkKeys<KP>* keys;                      ///< [place][key head]; none with a decay a channel
  Operators* operators;                     ///< [place][value head]

  static std::int64_t key_tiles(const RecurrenceCall& call, std::int64_t places) {
    return decay == Decay::token ? places * (call.HV / call.group) : 0;
  }
  static std::size_t bytes(const RecurrenceCall& call, std::int64_t places) {
    return static_cast<std::size_t>(key_tiles(call, places)) * sizeof(ChunkKeys<KP>) +
           static_cast<std::size_t>(places * call.HV) * sizeof(Operators);
  }
  ChunkWorkspace(const RecurrenceCall& call, std::int64_t places, void* memory)
      : keys(static_cast<ChunkKeys<KP>*>(memory)),
        operators(reinterpret_cast<Operators*>(keys + key_tiles(call, places))) {}
};

template <int C>
std::int64_t chunk_places(const RecurrenceCall& call) {
  return call.cu_seqlens.data ? call.T / C + call.N : call.N * ((call.T + C - 1) / C);
}

/// The sequence whose chunks lie at `place`, which may be a place left over. All lanes of a warp call this.
template <int C>
__device__ std::int64_t sequence_at(const RecurrenceCall& call, std::int64_t place) {
  if (!call.cu_seqlens.data) return place / ((call.T + C - 1) / C);
  std::int64_t begun = 0;  // sequences that begin at this place or before
  for (std::int64_t n0 = 0; n0 < call.N; n0 += 32) {
    const std::int64_t n = n0 + threadIdx.x % 32;
    const int more = __popc(__ballot_sync(~0u, n < call.N && sequence_begin(call, n) / C + n <= place));
    begun += more;
    if (more < 32) break;
  }
  return begun == 0 ? 0 : begun - 1;
}

}  // namespace fla::cuda
