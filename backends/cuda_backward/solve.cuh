#pragma once

#include "backends/cuda_backward/workspace.cuh"

/// The pairs of a chunk in shared memory, and what is solved for. A kernel's memory has tiles M, N and T, a
/// Diagonal and beta. With L = diag(beta) N,
///
///     T = (I + L)^-1    16 x 16 by substitution, a lane a column, in f32; then -T22 L21 T11, of 16 and of 32
namespace fla::cuda_backward {

struct DiagonalBlock {
  alignas(16) float at[16][20], pad[4];
};
using Diagonal = DiagonalBlock[4];  ///< L's blocks of 16, each in other banks

/// Numbers [i][j] and [i][j + 1].
template <class Memory>
__device__ void put_M(Memory& memory, int i, int j, float x, float y) {
  memory.M.pair(i, j) = pack_f16(x, y);
}
template <class Memory>
__device__ void put_N(Memory& memory, int i, int j, float x, float y) {
  memory.N.pair(i, j) = pack_f16(x, y);
}

/// Numbers [i][j] and [i][j + 1] of M or N, from a block that may be on the diagonal.
template <class Memory>
__device__ void put_pairs(Memory& memory, bool of_M, int i, int j, float x, float y) {
  x = i > j || (of_M && i == j) ? x : 0, y = i > j + 1 || (of_M && i == j + 1) ? y : 0;
  if (of_M) return put_M(memory, i, j, x, y);
  put_N(memory, i, j, x, y);
  if (i / 16 != j / 16) return;
  memory.diagonal[i / 16].at[i % 16][j % 16] = weighted(memory.beta[i], x);
  memory.diagonal[i / 16].at[i % 16][j % 16 + 1] = weighted(memory.beta[i], y);
}

/// -x, as f16, to [row][column ..] of a tile.
__device__ inline void put_negative(PairTile& tile, int row, int column, const Fragment& x) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) tile.pair(row + g + 8 * r, column + 2 * p) = pack_f16(-x[2 * r], -x[2 * r + 1]);
}

/// T's rows size .. 2 size - 1 from `base` on, 16 columns of them: T21 = -T22 (L21 T11). The transpose of L21
/// T11, as it comes out of the tensor core, is a right operand.
template <int size, class Memory>
__device__ void merge(Memory& memory, int base, int column) {
  constexpr int kTiles = size / 8;
  Fragment x[kTiles] = {};
#pragma unroll
  for (int k = base; k < base + size; k += 16) {
    const uint4 a = left_of_transposed(memory.T, column, k);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2)
      multiply(x[n], x[n + 1], a, right_of_transposed(memory.N, k, base + size + 8 * n));
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const float2 beta = pair_of_tokens(memory.beta, n, base + size);
#pragma unroll
    for (int e = 0; e < 4; ++e) x[n][e] *= e % 2 ? beta.y : beta.x;
  }
#pragma unroll
  for (int row = 0; row < size; row += 16) {
    Fragment y[2] = {};
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      const uint4 b{pack_f16(x[n][0], x[n][1]), pack_f16(x[n + 1][0], x[n + 1][1]),
                    pack_f16(x[n][2], x[n][3]), pack_f16(x[n + 1][2], x[n + 1][3])};
      multiply(y[0], y[1], left(memory.T, base + size + row, base + size + 8 * n), b);
    }
    put_negative(memory.T, base + size + row, column, y[0]);
    put_negative(memory.T, base + size + row, column + 8, y[1]);
  }
}

inline constexpr int kOthers = kBlockThreads - 64;  ///< threads that do not solve

/// Solves for T, by two warps. The others do meanwhile(thread), and after a barrier also(thread).
template <class Memory, class Meanwhile, class Also>
__device__ void solve(Memory& memory, Meanwhile&& meanwhile, Also&& also) {
  const int warp = threadIdx.x / 32, other = static_cast<int>(threadIdx.x) - 64;
  if (warp < 2) {
    const int block = threadIdx.x / 16, j = threadIdx.x % 16;
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float sums[2] = {i == j ? 1.0f : 0.0f, 0};
#pragma unroll
      for (int m = 0; m < i; m += 4) {
        const float4 row = *reinterpret_cast<const float4*>(memory.diagonal[block].at[i] + m);
        sums[0] -= row.x * x[m];
        if (m + 1 < i) sums[1] -= row.y * x[m + 1];
        if (m + 2 < i) sums[0] -= row.z * x[m + 2];
        if (m + 3 < i) sums[1] -= row.w * x[m + 3];
      }
      x[i] = sums[0] + sums[1];
      memory.T.at[PairTile::index(16 * block + i, 16 * block + j)] =
          static_cast<std::uint16_t>(pack_f16(x[i], 0));
    }
  } else {
    meanwhile(other);
  }
  __syncthreads();
  if (warp < 2)
    merge<16>(memory, 32 * warp, 32 * warp);
  else
    also(other);
  __syncthreads();
  if (warp < 2) merge<32>(memory, 0, 16 * warp);
}

}  // namespace fla::cuda_backward
