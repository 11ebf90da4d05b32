#pragma once

#include "fla/ops/common/cuda/bulk.cuh"
#include "fla/ops/common/cuda/copies.cuh"
#include "fla/ops/common/cuda/instructions.cuh"
#include "fla/ops/common/cuda/mma.cuh"
#include "fla/ops/recurrence/cuda/chunk.cuh"
#include "fla/ops/recurrence/cuda/tokens.cuh"

/// The notation of all kernels here.
///
/// A chunk has 64 tokens, a head 128 channels and 128 values; missing ones are zeros. All matrices are
/// tiles of f16, whatever the inputs are, and all products are made by warps that have 16 rows of a result:
///
///     lane = 4 g + p        element i of tile n of a slice:   row g + 8 (i / 2), column 8 n + 2 p + i % 2
///
/// A slice of channels (or values) against tokens is its own left operand once it is packed: neighbouring
/// tokens of a row lie in one word.
namespace fla::cuda_backward {

using namespace cuda;

inline constexpr int kTokens = 64, kHead = 128, kBlockThreads = 256, kBlockWarps = kBlockThreads / 32;
inline constexpr int kTokenTiles = kTokens / 8;

/// Rows of f16 numbers, in the workspace or in shared memory. Rows are swizzled: their 16-byte pieces are
/// permuted by the row's number, so that ldmatrix reads 8 rows without bank conflicts.
template <int rows, int columns>
struct Tile {
  static constexpr int kRow = columns;  ///< numbers from one row to the next
  alignas(256) std::uint16_t at[rows * columns];

  __device__ static int index(int row, int column) {
    const int turn = columns >= 64 ? row % 8 : row / 2 % 4;
    return row * columns + (column / 8 ^ turn) * 8 + column % 8;
  }
  __device__ std::uint16_t* piece(int row, int column) { return at + index(row, column); }
  __device__ const std::uint16_t* piece(int row, int column) const { return at + index(row, column); }

  /// The shared-memory address of [row + lane_row][column + lane_column]. `row` is a multiple of 8 and
  /// `column` of 16 (of 8 where lane_column is 0), so the swizzle is one XOR on the lane's own address.
  __device__ SharedAddress address(int row, int column, int lane_row, int lane_column) const {
    return (shared_address(at + index(lane_row, lane_column)) ^ static_cast<SharedAddress>(column * 2)) +
           static_cast<SharedAddress>(row * columns * 2);
  }
  __device__ std::uint32_t& pair(int row, int column) {
    return *reinterpret_cast<std::uint32_t*>(at + index(row, column));
  }
};
using KeyTile = Tile<kHead, kTokens>;  ///< channels (or values) x tokens
using RowTile = Tile<kTokens, kHead>;  ///< tokens x channels (or values), as inputs lie in memory
using PairTile = Tile<kTokens, kTokens>;
/// Rows without a swizzle, for inputs that are read one number at a time.
struct PlainRows {
  static constexpr int kRow = kHead;
  alignas(16) std::uint16_t at[kTokens * kHead];

  __device__ std::uint16_t* piece(int row, int column) { return at + row * kHead + column; }
};
/// Rows of 128 numbers whose halves lie one after the other: rows of 128 bytes, as warpgroups read them.
template <int rows>
struct SplitTile {
  using Half = Tile<rows, kHead / 2>;
  static constexpr int kRow = Half::kRow;
  Half halves[2];

  __device__ std::uint16_t* piece(int row, int column) {
    return halves[column / kRow].piece(row, column % kRow);
  }
  __device__ SharedAddress address(int row, int column, int lane_row, int lane_column) const {
    return halves[column / kRow].address(row, column % kRow, lane_row, lane_column);
  }
};
using SplitRows = SplitTile<kTokens>;  ///< tokens x values
using StateTile = SplitTile<kHead>;    ///< values x channels

// ---- Operands from shared memory. Products A B of 16 rows; right operands for 16 columns, two words for
// each 8.

__device__ inline int lane_row() { return static_cast<int>(threadIdx.x) % 8; }
__device__ inline int lane_second() { return static_cast<int>(threadIdx.x) / 8 % 2 * 8; }
__device__ inline int lane_fourth() { return static_cast<int>(threadIdx.x) / 16 % 2 * 8; }

/// A = X: rows from `row`, contracted from k.
template <class X>
__device__ uint4 left(const X& x, int row, int k) {
  return load_matrices<false>(x.address(row, k, lane_row() + lane_second(), lane_fourth()));
}
/// A = X^T
template <class X>
__device__ uint4 left_of_transposed(const X& x, int row, int k) {
  return load_matrices<true>(x.address(k, row, lane_row() + lane_fourth(), lane_second()));
}
/// A = X^T, 8 rows of it above the same 8 rows of Y^T.
template <class X>
__device__ uint4 left_of_both(const X& x, const X& y, int row, int k) {
  const X& own = lane_second() ? y : x;
  return load_matrices<true>(own.address(k, row, lane_row() + lane_fourth(), 0));
}
/// B = X: contracted from k, columns from n.
template <class X>
__device__ uint4 right(const X& x, int k, int n) {
  return load_matrices<true>(x.address(k, n, lane_row() + lane_second(), lane_fourth()));
}
/// B = X^T
template <class X>
__device__ uint4 right_of_transposed(const X& x, int k, int n) {
  return load_matrices<false>(x.address(n, k, lane_row() + lane_fourth(), lane_second()));
}

/// d and the next tile += A B, of 16 columns.
__device__ inline void multiply(Fragment& d, Fragment& next, const uint4& a, const uint4& b) {
  mma_f16(d, a.x, a.y, a.z, a.w, b.x, b.y);
  mma_f16(next, a.x, a.y, a.z, a.w, b.z, b.w);
}

/// The format of operands: f16, or bf16 for those that need its range.
template <bool wide>
struct Format {
  __device__ static std::uint32_t pack(float x, float y) { return wide ? pack_bf16(x, y) : pack_f16(x, y); }
  __device__ static float2 unpack(std::uint32_t word) { return wide ? unpack_bf16(word) : unpack_f16(word); }
  __device__ static void multiply(Fragment& d, Fragment& next, const uint4& a, const uint4& b) {
    if constexpr (!wide) return cuda_backward::multiply(d, next, a, b);
    mma_bf16(d, a.x, a.y, a.z, a.w, b.x, b.y);
    mma_bf16(next, a.x, a.y, a.z, a.w, b.z, b.w);
  }
};

// ---- Slices of 16 rows against all tokens (8 tiles of them) or half of them.

template <int tiles>
using Slice = Fragment[tiles];

/// A slice in f16.
template <int tiles>
struct Packed {
  std::uint32_t at[tiles][2];  ///< rows g and g + 8

  /// As a left operand, contracted over the slice's tokens 16 step ...
  __device__ uint4 left(int step) const {
    return {at[2 * step][0], at[2 * step][1], at[2 * step + 1][0], at[2 * step + 1][1]};
  }
};

template <int tiles>
__device__ Packed<tiles> packed(const Slice<tiles>& x) {
  Packed<tiles> y;
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
    y.at[n][0] = pack_f16(x[n][0], x[n][1]);
    y.at[n][1] = pack_f16(x[n][2], x[n][3]);
  }
  return y;
}

/// What is too large becomes the largest number.
template <int tiles>
__device__ Packed<tiles> packed_finite(const Slice<tiles>& x) {
  Packed<tiles> y;
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
    y.at[n][0] = pack_finite_f16(x[n][0], x[n][1]);
    y.at[n][1] = pack_finite_f16(x[n][2], x[n][3]);
  }
  return y;
}

template <int tiles>
__device__ Packed<tiles> operator*(const Packed<tiles>& x, const Packed<tiles>& y) {
  Packed<tiles> z;
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) z.at[n][r] = multiply_f16(x.at[n][r], y.at[n][r]);
  }
  return z;
}

/// The warp's word of tile n and rows g + 8 r, of rows `row` .. and columns `first` ..: where that of tile 0
/// is but for one XOR, which the swizzle's own arithmetic hides from the compiler.
template <class Words>
__device__ auto& word_of(Words& tile, int row, int first, int n, int r) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  const unsigned own = tile.index(row + g, first + 2 * p) * 2,
                 eight_rows = (tile.index(8, 0) - tile.index(0, 0)) * 2;
  using Word = std::conditional_t<std::is_const_v<Words>, const std::uint32_t, std::uint32_t>;
  using Byte = std::conditional_t<std::is_const_v<Words>, const char, char>;
  return *reinterpret_cast<Word*>(reinterpret_cast<Byte*>(tile.at) + (own ^ 16 * n) + r * eight_rows);
}

/// 16 rows of a tile, word by word: what is put may be computed meanwhile.
template <int tiles>
__device__ void put(const Packed<tiles>& x, KeyTile& tile, int row, int first = 0) {
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) word_of(tile, row, first, n, r) = x.at[n][r];
  }
}
/// The same with a quarter of the instructions, of what is there in registers. All lanes of a warp call this.
template <int tiles, class To>
__device__ void put_matrices(const Packed<tiles>& x, To& tile, int row) {
#pragma unroll
  for (int s = 0; s < tiles / 2; ++s)
    store_matrices(tile.address(row, 16 * s, lane_row() + lane_second(), lane_fourth()), x.left(s));
}

/// Numbers of tokens: of the two that the lane has of tile n, from token `first` on.
__device__ inline float2 pair_of_tokens(const float (&numbers)[kTokens], int n, int first = 0) {
  return *reinterpret_cast<const float2*>(numbers + (first | 8 * n) + 2 * (threadIdx.x % 4));
}

/// The same of all tiles, before they are needed.
__device__ inline void load_pairs(const float (&numbers)[kTokens], float2 (&pairs)[kTokenTiles]) {
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) pairs[n] = pair_of_tokens(numbers, n);
}

template <int tiles>
__device__ void scale_tokens(Slice<tiles>& x, const float (&factors)[kTokens]) {
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
    const float2 factor = pair_of_tokens(factors, n);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[n][i] *= i % 2 ? factor.y : factor.x;
  }
}

/// The part of a triangular right operand that is not zero: columns from the step's rows on, or up to them.
enum class Triangle { none, from_step, to_step };

/// d += A B, contracted over 16 `steps`: left(s) is A's columns 16 s .., right(k, n) is B from [k][n].
template <int steps, Triangle triangle = Triangle::none, int tiles, class Left, class Right>
__device__ void multiply(Slice<tiles>& d, Left&& left, Right&& right) {
#pragma unroll
  for (int s = 0; s < steps; ++s) {
    const uint4 a = left(s);
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      const bool zeros = triangle == Triangle::from_step ? n < 2 * s
                         : triangle == Triangle::to_step ? n > 2 * s
                                                         : false;
      if (!zeros) multiply(d[n], d[n + 1], a, right(16 * s, 8 * n));
    }
  }
}
/// Two numbers of an input of 16 bits.
__device__ inline float2 unpack(std::uint32_t word, DType dtype) {
  return dtype == DType::f16 ? unpack_f16(word) : unpack_bf16(word);
}

/// Rows of 16-bit inputs as they are; what is not there is zeros. All `threads` call this and wait for the
/// copies.
template <int threads, int columns = kHead, class To>
__device__ void copy_input(const Rows& rows, int head, int channel, int channels, const TokenRange& range,
                           To& tile, int thread = threadIdx.x) {
  constexpr int kPieces = columns / 8,
                kStep = threads / kPieces;  // tokens from one piece of a thread to the next
  static_assert(threads % kPieces == 0 && kTokens % kStep == 0 && kStep % 8 == 0);
  const int first = thread / kPieces, c = thread % kPieces * 8;
  const std::uint16_t* from = static_cast<const std::uint16_t*>(rows.data) + range.batch * rows.batch +
                              (range.first + first) * rows.token + head * rows.head + channel + c;
  std::uint16_t* const to = tile.piece(first, c);
  const int count = c < channels ? range.count : 0;
#pragma unroll
  for (int t = 0; t < kTokens; t += kStep, from += kStep * rows.token) {
    if (first + t < count) {
      __pipeline_memcpy_async(to + t * To::kRow, from, 16);
    } else {
      *reinterpret_cast<uint4*>(to + t * To::kRow) = {0, 0, 0, 0};
    }
  }
}

/// Calls body(token, words) for the pieces that a thread copied by copy_input().
template <int threads, int columns = kHead, class To, class Body>
__device__ void with_own_pieces(To& tile, Body&& body, int thread = threadIdx.x) {
  constexpr int kPieces = columns / 8, kStep = threads / kPieces;
  const int first = thread / kPieces, c = thread % kPieces * 8;
#pragma unroll
  for (int t = 0; t < kTokens; t += kStep)
    body(first + t, *reinterpret_cast<uint4*>(tile.piece(first + t, c)));
}
template <class Change>
__device__ void change_words(uint4& words, Change&& change) {
  words = {change(words.x), change(words.y), change(words.z), change(words.w)};
}

/// Whole tiles from the workspace, by one thread.
template <class T>
__device__ void copy_bulk(const T& from, T& to, Arrival& arrival) {
  cuda::copy_bulk(&to, &from, sizeof(T), arrival);
}
/// A state's first `rows`; their bytes.
__device__ inline std::uint32_t state_bytes(int rows) {
  return static_cast<std::uint32_t>(2 * rows * StateTile::kRow * 2);
}
__device__ inline void copy_bulk(const StateTile& from, StateTile& to, int rows, Arrival& arrival) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    cuda::copy_bulk(to.halves[half].at, from.halves[half].at, state_bytes(rows) / 2, arrival);
}
/// Zeros from row `first` on.
template <int threads, int rows, int columns>
__device__ void clear_rows(Tile<rows, columns>& tile, int first, int thread = threadIdx.x) {
  for (int at = first * columns + thread * 8; at < rows * columns; at += threads * 8)
    *reinterpret_cast<uint4*>(tile.at + at) = {0, 0, 0, 0};
}
template <int threads, int rows>
__device__ void clear_rows(SplitTile<rows>& tile, int first) {
  clear_rows<threads>(tile.halves[0], first);
  clear_rows<threads>(tile.halves[1], first);
}

/// A tile to the workspace.
template <int threads, int rows, int columns>
__device__ void store_tile(const Tile<rows, columns>& from, Tile<rows, columns>& to,
                           int thread = threadIdx.x) {
#pragma unroll
  for (int at = 0; at < rows * columns; at += threads * 8) {
    const int own = at + thread * 8;
    if (rows * columns % (threads * 8) == 0 || own < rows * columns)
      *reinterpret_cast<uint4*>(to.at + own) = *reinterpret_cast<const uint4*>(from.at + own);
  }
}

/// Eight neighbouring numbers of an output of 16 bits.
__device__ inline void store_8(void* to, DType dtype, std::int64_t at, const float (&x)[8]) {
  const auto packed = [&](int i) {
    if (dtype == DType::f16) return pack_f16(x[i], x[i + 1]);
    return pack_bf16(x[i], x[i + 1]);
  };
  *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(to) + at) = {packed(0), packed(2), packed(4),
                                                                     packed(6)};
}

}  // namespace fla::cuda_backward
