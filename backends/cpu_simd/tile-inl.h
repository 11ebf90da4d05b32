// Register tiles: the products of the chunked kernel, one block of columns at a time. Included once for every
// target.
//
// A tile is kTileRows rows times 1 to kTileVectors vectors of accumulators. Its left operand is stored with
// the scalars of one step next to each other (a "quad" of four feeds four rows), its right operand is a
// vector of the state or of U. A column of a tile never meets another one, so a column's bits do not depend
// on the tile it is in.

#if defined(FLA_BACKENDS_CPU_SIMD_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_TILE_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_TILE_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_TILE_INL_H_
#endif

#include "backends/cpu_simd/kernels.h"
#include "backends/cpu_simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr int kChunk = kChunkTokens;

// Accumulators, one row of right-hand vectors and the broadcast scalars have to fit in the register file: 32
// registers on NEON, SVE and AVX-512, 16 on AVX2.
constexpr int kTileRows = HWY_TARGET == HWY_AVX2 ? 4 : 8;
constexpr int kTileVectors = 3;
constexpr int kOperandRow = 2 * kChunk;

// Four consecutive scalars, to be broadcast one by one: NEON multiplies by a lane, the others broadcast from
// memory.
#if HWY_TARGET == HWY_NEON
using Quad = VF;
HWY_INLINE Quad load_quad(DF d, const float* from) { return hn::LoadU(d, from); }
template <int kLane>
HWY_INLINE VF broadcast(DF, const Quad& quad) {
  return hn::Broadcast<kLane>(quad);
}
#else
struct Quad {
  const float* from;
};
HWY_INLINE Quad load_quad(DF, const float* from) { return {from}; }
template <int kLane>
HWY_INLINE VF broadcast(DF d, const Quad& quad) {
  return hn::Set(d, quad.from[kLane]);
}
#endif

template <int kRows, int kVectors>
using Tile = VF[kRows][kVectors];

template <int kRows, int kVectors>
HWY_INLINE void load_tile(DF d, Tile<kRows, kVectors>& tile, const float* HWY_RESTRICT from,
                          std::size_t row) {
  FLA_UNROLL for (int i = 0; i < kRows; ++i) {
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) tile[i][n] = hn::Load(d, from + i * row + n * kLanes);
  }
}
template <int kRows, int kVectors>
HWY_INLINE void store_tile(DF d, const Tile<kRows, kVectors>& tile, float* HWY_RESTRICT to, std::size_t row) {
  FLA_UNROLL for (int i = 0; i < kRows; ++i) {
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) hn::Store(tile[i][n], d, to + i * row + n * kLanes);
  }
}

// tile[i] += left[i] * right for the rows from kRow on.
template <int kRow, int kRows, int kVectors>
HWY_INLINE void add_outer(DF d, Tile<kRows, kVectors>& tile, const Quad (&left)[kRows / 4],
                          const VF (&right)[kVectors]) {
  if constexpr (kRow < kRows) {
    const VF scalar = broadcast<kRow % 4>(d, left[kRow / 4]);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) tile[kRow][n] = hn::MulAdd(right[n], scalar, tile[kRow][n]);
    add_outer<kRow + 1, kRows, kVectors>(d, tile, left, right);
  }
}

template <int kRows, int kVectors>
HWY_INLINE void add_step(DF d, Tile<kRows, kVectors>& tile, const float* HWY_RESTRICT left,
                         const float* HWY_RESTRICT right) {
  Quad scalars[kRows / 4];
  VF vectors[kVectors];
  FLA_UNROLL for (int i = 0; i < kRows / 4; ++i) scalars[i] = load_quad(d, left + 4 * i);
  FLA_UNROLL for (int n = 0; n < kVectors; ++n) vectors[n] = hn::Load(d, right + n * kLanes);
  add_outer<0, kRows, kVectors>(d, tile, scalars, vectors);
}

// tile += left^T right over `steps` (even) steps.
template <int kRows, int kVectors>
HWY_INLINE void add_product(DF d, Tile<kRows, kVectors>& tile, const float* HWY_RESTRICT left,
                            std::size_t left_row, const float* HWY_RESTRICT right, std::size_t right_row,
                            std::size_t steps) {
  for (std::size_t s = 0; s < steps; s += 2) {
    add_step<kRows, kVectors>(d, tile, left + s * left_row, right + s * right_row);
    add_step<kRows, kVectors>(d, tile, left + (s + 1) * left_row, right + (s + 1) * right_row);
  }
}

// tile[i] += sum over j <= i of left[j][i] right[j]. What lies above the diagonal is not touched: a row must
// not meet what comes after it, since 0 times infinity is no 0.
template <int kFrom, int kRows, int kVectors>
HWY_INLINE void add_lower_product(DF d, Tile<kRows, kVectors>& tile, const float* HWY_RESTRICT left,
                                  std::size_t left_row, const float* HWY_RESTRICT right,
                                  std::size_t right_row) {
  if constexpr (kFrom < kRows) {
    Quad scalars[kRows / 4];
    VF vectors[kVectors];
    FLA_UNROLL for (int i = 0; i < kRows / 4; ++i) scalars[i] = load_quad(d, left + kFrom * left_row + 4 * i);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
      vectors[n] = hn::Load(d, right + kFrom * right_row + n * kLanes);
    }
    add_outer<kFrom, kRows, kVectors>(d, tile, scalars, vectors);
    add_lower_product<kFrom + 1, kRows, kVectors>(d, tile, left, left_row, right, right_row);
  }
}

// Forward substitution: tile[i] += sum over j < i of factor[j][i] tile[j].
template <int kFrom, int kRow, int kRows, int kVectors>
HWY_INLINE void substitute_row(DF d, Tile<kRows, kVectors>& tile, const Quad (&factors)[kRows / 4]) {
  if constexpr (kRow < kRows) {
    const VF scalar = broadcast<kRow % 4>(d, factors[kRow / 4]);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
      tile[kRow][n] = hn::MulAdd(tile[kFrom][n], scalar, tile[kRow][n]);
    }
    substitute_row<kFrom, kRow + 1, kRows, kVectors>(d, tile, factors);
  }
}
template <int kFrom, int kRows, int kVectors>
HWY_INLINE void substitute(DF d, Tile<kRows, kVectors>& tile, const float* HWY_RESTRICT factor,
                           std::size_t row) {
  if constexpr (kFrom < kRows - 1) {
    Quad factors[kRows / 4];
    FLA_UNROLL for (int i = 0; i < kRows / 4; ++i) factors[i] = load_quad(d, factor + kFrom * row + 4 * i);
    substitute_row<kFrom, kFrom + 1, kRows, kVectors>(d, tile, factors);
    substitute<kFrom + 1, kRows, kVectors>(d, tile, factor, row);
  }
}

template <int kRow, int kRows, int kVectors>
HWY_INLINE void scale_rows(DF d, Tile<kRows, kVectors>& tile, const Quad (&factors)[kRows / 4]) {
  if constexpr (kRow < kRows) {
    const VF scalar = broadcast<kRow % 4>(d, factors[kRow / 4]);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) tile[kRow][n] = hn::Mul(tile[kRow][n], scalar);
    scale_rows<kRow + 1, kRows, kVectors>(d, tile, factors);
  }
}

// The products of a chunk with the columns of one panel. `operands` has a row for every channel, then one for
// every token of the chunk: the left halves make U, the right halves O. What the latter have above the
// diagonal, where a token would meet a later one, is not read. Rows of `u` and of the state are `kVectors`
// vectors.

// U = values + A S + L U
template <int kVectors>
HWY_INLINE void solve_u(DF d, const float* HWY_RESTRICT operands, const float* HWY_RESTRICT values,
                        const float* HWY_RESTRICT state, std::size_t channels, float* HWY_RESTRICT u,
                        int first) {
  constexpr std::size_t kWidth = kVectors * kLanes;
  const float* pairs = operands + channels * kOperandRow + first;
  Tile<kTileRows, kVectors> tile;
  load_tile<kTileRows, kVectors>(d, tile, values + first * kWidth, kWidth);
  add_product<kTileRows, kVectors>(d, tile, operands + first, kOperandRow, state, kWidth, channels);
  add_product<kTileRows, kVectors>(d, tile, pairs, kOperandRow, u, kWidth, static_cast<std::size_t>(first));
  substitute<0, kTileRows, kVectors>(d, tile, pairs + first * kOperandRow, kOperandRow);
  store_tile<kTileRows, kVectors>(d, tile, u + first * kWidth, kWidth);
}

// O = B S + M U
template <int kVectors>
HWY_INLINE void make_output(DF d, const float* HWY_RESTRICT operands, const float* HWY_RESTRICT state,
                            std::size_t channels, const float* HWY_RESTRICT u, float* HWY_RESTRICT out,
                            std::size_t out_row, int first) {
  constexpr std::size_t kWidth = kVectors * kLanes;
  const float *left = operands + kChunk + first, *pairs = left + channels * kOperandRow;
  Tile<kTileRows, kVectors> tile;
  FLA_UNROLL for (int i = 0; i < kTileRows; ++i) {
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) tile[i][n] = hn::Zero(d);
  }
  add_product<kTileRows, kVectors>(d, tile, left, kOperandRow, state, kWidth, channels);
  add_product<kTileRows, kVectors>(d, tile, pairs, kOperandRow, u, kWidth, static_cast<std::size_t>(first));
  add_lower_product<0, kTileRows, kVectors>(d, tile, pairs + first * kOperandRow, kOperandRow,
                                            u + first * kWidth, kWidth);
  store_tile<kTileRows, kVectors>(d, tile, out + static_cast<std::size_t>(first) * out_row, out_row);
}

// S = decay S + keys^T U
template <int kVectors>
HWY_INLINE void update_state(DF d, float* HWY_RESTRICT state, std::size_t channels,
                             const float* HWY_RESTRICT keys, const float* HWY_RESTRICT u,
                             const float* HWY_RESTRICT decay) {
  constexpr std::size_t kWidth = kVectors * kLanes;
  for (std::size_t k = 0; k < channels; k += kTileRows) {
    Tile<kTileRows, kVectors> tile;
    Quad decays[kTileRows / 4];
    load_tile<kTileRows, kVectors>(d, tile, state + k * kWidth, kWidth);
    FLA_UNROLL for (int i = 0; i < kTileRows / 4; ++i) decays[i] = load_quad(d, decay + k + 4 * i);
    scale_rows<0, kTileRows, kVectors>(d, tile, decays);
    FLA_UNROLL for (int j = 0; j < kChunk; ++j) {
      add_step<kTileRows, kVectors>(d, tile, keys + static_cast<std::size_t>(j) * channels + k,
                                    u + j * kWidth);
    }
    store_tile<kTileRows, kVectors>(d, tile, state + k * kWidth, kWidth);
  }
}

// The pair matrices of a chunk: for the tokens j in [kFirst, kFirst + 4) the products of every later operand
// row with key j, written behind the operands. Vectors run along the operand's tokens.
template <int kLane, int kVectors>
HWY_INLINE void add_pairs_lane(DF d, Tile<4, kVectors>& tile, const Quad (&keys)[4],
                               const float* HWY_RESTRICT operand) {
  FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
    const VF right = hn::Load(d, operand + n * kLanes);
    FLA_UNROLL for (int j = 0; j < 4; ++j) tile[j][n] =
        hn::MulAdd(right, broadcast<kLane>(d, keys[j]), tile[j][n]);
  }
}
template <int kVectors, int kParts>
HWY_INLINE void pair_tile(DF d, float* HWY_RESTRICT operands, std::size_t channels,
                          const float* HWY_RESTRICT keys, int first, std::size_t column) {
  Tile<4, kVectors> left, right;  // two runs of vectors, kChunk apart, when kParts is 2
  FLA_UNROLL for (int j = 0; j < 4; ++j) {
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) left[j][n] = right[j][n] = hn::Zero(d);
  }
  const float* HWY_RESTRICT key = keys + static_cast<std::size_t>(first) * channels;
  for (std::size_t k = 0; k < channels; k += 4) {
    Quad quads[4];
    FLA_UNROLL for (int j = 0; j < 4; ++j) quads[j] =
        load_quad(d, key + static_cast<std::size_t>(j) * channels + k);
    const float* HWY_RESTRICT operand = operands + k * kOperandRow + column;
    add_pairs_lane<0, kVectors>(d, left, quads, operand);
    if constexpr (kParts == 2) add_pairs_lane<0, kVectors>(d, right, quads, operand + kChunk);
    add_pairs_lane<1, kVectors>(d, left, quads, operand + kOperandRow);
    if constexpr (kParts == 2) add_pairs_lane<1, kVectors>(d, right, quads, operand + kOperandRow + kChunk);
    add_pairs_lane<2, kVectors>(d, left, quads, operand + 2 * kOperandRow);
    if constexpr (kParts == 2)
      add_pairs_lane<2, kVectors>(d, right, quads, operand + 2 * kOperandRow + kChunk);
    add_pairs_lane<3, kVectors>(d, left, quads, operand + 3 * kOperandRow);
    if constexpr (kParts == 2)
      add_pairs_lane<3, kVectors>(d, right, quads, operand + 3 * kOperandRow + kChunk);
  }
  FLA_UNROLL for (int j = 0; j < 4; ++j) {
    float* HWY_RESTRICT to =
        operands + (channels + static_cast<std::size_t>(first + j)) * kOperandRow + column;
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
      hn::Store(left[j][n], d, to + n * kLanes);
      if constexpr (kParts == 2) hn::Store(right[j][n], d, to + n * kLanes + kChunk);
    }
  }
}
template <int kFirst>
HWY_NOINLINE void pair_products(DF d, float* HWY_RESTRICT operands, std::size_t channels,
                                const float* HWY_RESTRICT keys) {
  if constexpr (kFirst < kChunk) {
    if constexpr (kLanes > kChunk) {
      pair_tile<kOperandRow / kLanes, 1>(d, operands, channels, keys, kFirst, 0);
    } else {
      constexpr int kColumn = kFirst / kLanes * kLanes, kVectors = (kChunk - kColumn) / kLanes;
      pair_tile<kVectors, 2>(d, operands, channels, keys, kFirst, kColumn);
    }
    pair_products<kFirst + 4>(d, operands, channels, keys);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
