#pragma once

#include "fla/ops/kda/cuda/states.cuh"

/// The chunked form of kda, as its two kernels share it. Chunks are cut from each sequence by itself, so a
/// sequence gives the same bits alone and in any batch. Within a chunk, with G_i the sum of the log-decays of
/// tokens 0..i:
///
///     Q~_i = q_i 2^G_i     K~_i = k_i 2^G_i     Kr_i = k_i 2^(G_last - G_i)             exponents <= 0
///     M_ij = sum_k q_ik k_jk 2^(G_i - G_j)_k   (i >= j)       N the same with k for q   (i > j)
///     T2 = (I + diag(beta) N)^-1 diag(beta)
///     U = T2 (V - K~ S)          O = Q~ S + M U          S <- diag(2^G_last) S + Kr^T U
///
/// chunk_prepare makes the operators of every chunk, all chunks at once; chunk_state carries the state
/// through them.
namespace fla::cuda {

/// Tokens of a chunk: fewer with many channels, for shared memory's sake.
__host__ __device__ constexpr int chunk_size(int K) { return K <= 128 ? 32 : 16; }

/// What chunk_state needs of a chunk and head besides V, in the workspace. Channels are padded to KP, tokens
/// to C.
template <int KP>
struct ChunkOperators {
  static constexpr int C = chunk_size(KP);
  float K[C][KP], Q[C][KP];  ///< K~ and Q~
  float Kr[C / 4][KP][4];    ///< token 4 i + j in [i][channel][j]
  float M[C][C], T2[C][C];   ///< zeros above the diagonal
  float gamma[KP];           ///< 2^G_last
};

/// Room for chunk i of sequence n. With packed sequences a place is left over after each of them, so that
/// where a sequence's chunks lie follows from its own entry of cu_seqlens alone.
template <int C>
__device__ std::int64_t chunk_place(const RecurrenceCall& call, const Sequence& sequence, std::int64_t n,
                                    std::int64_t i) {
  return call.cu_seqlens.data ? sequence.begin / C + n + i : n * ((call.T + C - 1) / C) + i;
}

inline std::int64_t chunk_places(const RecurrenceCall& call) {
  const int C = chunk_size(call.K);
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
