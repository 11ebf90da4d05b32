#pragma once

#include "fla/ops/common/cuda/mma.cuh"
#include "fla/ops/recurrence/cuda/chunk.cuh"
#include "fla/ops/recurrence/cuda/tokens.cuh"

/// What the kernels that make operators have in common, whatever a token's decay is.
namespace fla::cuda {

/// The chunk and head of a block, of `heads` at each place from `first_place` on; count is 0 where it has
/// none.
template <int C>
struct ChunkOfBlock {
  int head, count = 0;
  std::int64_t place, n, batch, first;

  __device__ ChunkOfBlock(const RecurrenceCall& call, int heads, std::int64_t first_place = 0,
                          unsigned block = blockIdx.x)
      : head(static_cast<int>(block % heads)), place(first_place + block / heads) {
    n = sequence_at<C>(call, place);
    const Sequence sequence = sequence_of(call, n);
    const std::int64_t chunk = place - chunk_place<C>(call, sequence, n, 0);
    batch = sequence.batch, first = sequence.begin + chunk * C;
    if (chunk >= 0 && first < sequence.end)
      count = static_cast<int>(min(sequence.end - first, std::int64_t{C}));
  }
  __device__ TokenRange range() const { return {batch, first, count}; }
};

/// Floats from one row of pairs to the next, in shared memory.
template <int C>
inline constexpr int kPairRow = C + 4;

/// beta N, of a token that writes nothing 0: its key may be so large that N is not finite.
__device__ inline float weighted(float beta, float n) { return beta == 0 ? 0 : beta * n; }

/// A lane a column j of (I + L)^-1, which becomes column j of T2. Lt is the transpose of L.
template <int C>
__device__ void solve(const float (&Lt)[C * kPairRow<C>], const float (&beta)[C], int j, float (&T2)[C][C]) {
  float x[C];
#pragma unroll
  for (int i = 0; i < C; ++i) x[i] = i == j ? 1 : 0;
#pragma unroll
  for (int m = 0; m < C; ++m) {
    T2[m][j] = m < j ? 0 : x[m] * beta[j];  // 0 also where beta is not finite
#pragma unroll
    for (int i = m + 1; i < C; ++i) x[i] -= Lt[m * kPairRow<C> + i] * x[m];
  }
}

}  // namespace fla::cuda
