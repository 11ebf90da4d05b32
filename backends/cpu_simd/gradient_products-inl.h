// The products of the backward kernel: of a chunk's tokens with a state, and of its tokens with each other.
// Included once for every SIMD target.
//
// A state [channels][V] lies in panels of kWidth columns, [panel][channels][kWidth]; so do rows of values,
// [panel][rows][kWidth]. Products that run along channels are tiles of one panel (tile-inl.h). Those that run
// along values are tiles of 4 channels, or tokens, and kDotRows tokens: vectors of sums, one lane of which is
// a part of the sum.

#if defined(FLA_BACKENDS_CPU_SIMD_GRADIENT_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_GRADIENT_PRODUCTS_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_GRADIENT_PRODUCTS_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_GRADIENT_PRODUCTS_INL_H_
#endif

#include <cstring>

#include "backends/cpu_simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr int kTokens = 16;  // of a chunk that is gone through backwards
constexpr int kPanelVectors = 2;
constexpr std::size_t kWidth = kPanelVectors * kLanes;
using PanelTile = Tile<kTileRows, kPanelVectors>;

constexpr int kDotRows = HWY_TARGET == HWY_AVX2 ? 2 : 4;

// The padded sizes of a head. Rows of channels and panels of a state lie a cache line more apart than they
// are long: otherwise those of one column would all fall into the same few sets of L1.
struct Sizes {
  static constexpr std::size_t kLine = 16;
  std::size_t K, V, channels, row, panels, columns, panel, state;

  Sizes(std::int64_t K_, std::int64_t V_)
      : K(static_cast<std::size_t>(K_)),
        V(static_cast<std::size_t>(V_)),
        channels(round_up(K, HWY_MAX(2 * kLanes, 8))),
        row(channels + kLine),
        panels((V + kWidth - 1) / kWidth),
        columns(panels * kWidth),
        panel(channels * kWidth + kLine),
        state(panels * panel) {}
};

HWY_INLINE void clear_tile(DF d, PanelTile& tile) {
  FLA_UNROLL for (int i = 0; i < kTileRows; ++i) {
    FLA_UNROLL for (int n = 0; n < kPanelVectors; ++n) tile[i][n] = hn::Zero(d);
  }
}

HWY_INLINE void load_quads(DF d, const float* from, Quad (&quads)[kTileRows / 4]) {
  FLA_UNROLL for (int i = 0; i < kTileRows / 4; ++i) quads[i] = load_quad(d, from + 4 * i);
}

// tile[i] += sum over the tokens t >= i of left[t][i] right[t].
template <int kFrom, int kRow>
HWY_INLINE void add_later_row(DF d, PanelTile& tile, const Quad (&left)[kTileRows / 4],
                              const VF (&right)[kPanelVectors]) {
  if constexpr (kRow <= kFrom) {
    const VF scalar = broadcast<kRow % 4>(d, left[kRow / 4]);
    FLA_UNROLL for (int n = 0; n < kPanelVectors; ++n) {
      tile[kRow][n] = hn::MulAdd(right[n], scalar, tile[kRow][n]);
    }
    add_later_row<kFrom, kRow + 1>(d, tile, left, right);
  }
}
template <int kFrom>
HWY_INLINE void add_later_rows(DF d, PanelTile& tile, const float* HWY_RESTRICT left,
                               const float* HWY_RESTRICT right, std::size_t right_row) {
  if constexpr (kFrom < kTileRows) {
    Quad scalars[kTileRows / 4];
    load_quads(d, left + kFrom * kTokens, scalars);
    VF vectors[kPanelVectors];
    FLA_UNROLL for (int n = 0; n < kPanelVectors; ++n) {
      vectors[n] = hn::Load(d, right + kFrom * right_row + n * kLanes);
    }
    add_later_row<kFrom, 0>(d, tile, scalars, vectors);
    add_later_rows<kFrom + 1>(d, tile, left, right, right_row);
  }
}

// Backward substitution: tile[i] += sum over t > i of factor[t][i] tile[t].
template <int kFrom, int kRow>
HWY_INLINE void substitute_back_row(DF d, PanelTile& tile, const Quad (&factors)[kTileRows / 4]) {
  if constexpr (kRow < kFrom) {
    const VF scalar = broadcast<kRow % 4>(d, factors[kRow / 4]);
    FLA_UNROLL for (int n = 0; n < kPanelVectors; ++n) {
      tile[kRow][n] = hn::MulAdd(tile[kFrom][n], scalar, tile[kRow][n]);
    }
    substitute_back_row<kFrom, kRow + 1>(d, tile, factors);
  }
}
template <int kFrom>
HWY_INLINE void substitute_back(DF d, PanelTile& tile, const float* HWY_RESTRICT factor) {
  if constexpr (kFrom > 0) {
    Quad factors[kTileRows / 4];
    load_quads(d, factor + kFrom * kTokens, factors);
    substitute_back_row<kFrom, 0>(d, tile, factors);
    substitute_back<kFrom - 1>(d, tile, factor);
  }
}

// ---- One panel

// Z = values + operand^T S, operand [channels][kTokens] being -Kd; U = diag(beta) Z + L U. `later_of` is L
// with a row for each earlier token.
inline HWY_NOINLINE void solve_values(DF d, const float* HWY_RESTRICT operand,
                                      const float* HWY_RESTRICT state, std::size_t channels,
                                      const float* HWY_RESTRICT later_of, const float* HWY_RESTRICT beta,
                                      int count, float* HWY_RESTRICT Z, float* HWY_RESTRICT U) {
  for (int first = 0; first < count; first += kTileRows) {
    PanelTile tile;
    Quad betas[kTileRows / 4];
    load_tile(d, tile, Z + first * kWidth, kWidth);
    add_product(d, tile, operand + first, kTokens, state, kWidth, channels);
    store_tile(d, tile, Z + first * kWidth, kWidth);
    load_quads(d, beta + first, betas);
    scale_rows<0, kTileRows, kPanelVectors>(d, tile, betas);
    add_product(d, tile, later_of + first, kTokens, U, kWidth, static_cast<std::size_t>(first));
    substitute<0, kTileRows, kPanelVectors>(d, tile, later_of + first * kTokens + first, kTokens);
    store_tile(d, tile, U + first * kWidth, kWidth);
  }
}

// to = diag(decay) from + sum over the tokens of left[t]^T right[t], and of left[kTokens + t] with the right
// ones kTokens further on when kParts is 2. `to` may be `from`.
template <int kParts>
HWY_NOINLINE void update_panel(DF d, const float* from, float* to, std::size_t channels,
                               const float* HWY_RESTRICT decay, const float* HWY_RESTRICT left,
                               std::size_t left_row, const float* HWY_RESTRICT right, int count) {
  for (std::size_t k = 0; k < channels; k += kTileRows) {
    PanelTile tile;
    Quad decays[kTileRows / 4];
    load_tile(d, tile, from + k * kWidth, kWidth);
    load_quads(d, decay + k, decays);
    scale_rows<0, kTileRows, kPanelVectors>(d, tile, decays);
    for (int part = 0; part < kParts; ++part) {
      const float* rows = left + static_cast<std::size_t>(part * kTokens) * left_row + k;
      const float* values = right + static_cast<std::size_t>(part * kTokens) * kWidth;
      for (int t = 0; t < count; ++t) {
        add_step<kTileRows, kPanelVectors>(d, tile, rows + static_cast<std::size_t>(t) * left_row,
                                           values + static_cast<std::size_t>(t) * kWidth);
      }
    }
    store_tile(d, tile, to + k * kWidth, kWidth);
  }
}

// dU = M^T E + operand^T dS, operand [channels][kTokens] being Kr; dY = dU + L^T dY, and dV = diag(beta) dY.
// Without kDelta dV is dU. Rows behind the last token become zeros.
template <bool kDelta>
HWY_NOINLINE void solve_value_gradients(DF d, const float* HWY_RESTRICT operand, const float* HWY_RESTRICT dS,
                                        std::size_t channels, const float* HWY_RESTRICT M,
                                        const float* HWY_RESTRICT L, const float* HWY_RESTRICT beta,
                                        int count, const float* HWY_RESTRICT E, float* HWY_RESTRICT dY,
                                        float* HWY_RESTRICT dV) {
  for (int first = kTokens - kTileRows; first >= 0; first -= kTileRows) {
    const int next = first + kTileRows;
    const auto later = static_cast<std::size_t>(kTokens - next);
    PanelTile tile;
    clear_tile(d, tile);
    if (first < count) {
      add_product(d, tile, operand + first, kTokens, dS, kWidth, channels);
      add_product(d, tile, M + next * kTokens + first, kTokens, E + next * kWidth, kWidth, later);
      add_later_rows<0>(d, tile, M + first * kTokens + first, E + first * kWidth, kWidth);
      FLA_UNROLL for (int i = 0; i < kTileRows; ++i) {
        if (first + i >= count) {
          FLA_UNROLL for (int n = 0; n < kPanelVectors; ++n) tile[i][n] = hn::Zero(d);
        }
      }
    }
    if constexpr (kDelta) {
      add_product(d, tile, L + next * kTokens + first, kTokens, dY + next * kWidth, kWidth, later);
      substitute_back<kTileRows - 1>(d, tile, L + first * kTokens + first);
      store_tile(d, tile, dY + first * kWidth, kWidth);
      Quad betas[kTileRows / 4];
      load_quads(d, beta + first, betas);
      scale_rows<0, kTileRows, kPanelVectors>(d, tile, betas);
    }
    store_tile(d, tile, dV + first * kWidth, kWidth);
  }
}

// ---- All panels: products along values

// Rows of values or of a state, in panels; or rows of channels, whose panels are kWidth channels.
struct PanelRows {
  const float* first;        // of panel 0
  std::size_t panel;         // floats from a panel to the next
  std::size_t row = kWidth;  // and from a row to the next

  PanelRows from(int i) const { return {first + static_cast<std::size_t>(i) * row, panel, row}; }
};

// to[i * to_row + 0..3] = left row i times right rows 0..3, i < kDotRows.
HWY_INLINE void dot_tile(DF d, const PanelRows& left, const PanelRows& right, std::size_t panels,
                         float* HWY_RESTRICT to, std::size_t to_row) {
  Tile<kDotRows, 4> tile;
  FLA_UNROLL for (int i = 0; i < kDotRows; ++i) {
    FLA_UNROLL for (int j = 0; j < 4; ++j) tile[i][j] = hn::Zero(d);
  }
  const float* HWY_RESTRICT l = left.first;
  const float* HWY_RESTRICT r = right.first;
  for (std::size_t p = 0; p < panels; ++p, l += left.panel, r += right.panel) {
    FLA_UNROLL for (int n = 0; n < kPanelVectors; ++n) {
      VF rights[4];
      FLA_UNROLL for (int j = 0; j < 4; ++j) rights[j] = hn::Load(d, r + j * right.row + n * kLanes);
      FLA_UNROLL for (int i = 0; i < kDotRows; ++i) {
        const VF lefts = hn::Load(d, l + i * left.row + n * kLanes);
        FLA_UNROLL for (int j = 0; j < 4; ++j) tile[i][j] = hn::MulAdd(lefts, rights[j], tile[i][j]);
      }
    }
  }
  FLA_UNROLL for (int i = 0; i < kDotRows; ++i) {
    hn::StoreU(sums_of_lanes(d, tile[i][0], tile[i][1], tile[i][2], tile[i][3]), D4(),
               to + static_cast<std::size_t>(i) * to_row);
  }
}

// to[i * to_row + 0..3] = left row i times right rows 0..3, i < count rounded up to whole tiles.
HWY_INLINE void dot_rows(DF d, const PanelRows& left, const PanelRows& right, std::size_t panels, int count,
                         float* HWY_RESTRICT to, std::size_t to_row) {
  for (int i = 0; i < count; i += kDotRows) {
    dot_tile(d, left.from(i), right, panels, to + static_cast<std::size_t>(i) * to_row, to_row);
  }
}

// to[i * kTokens + j] = left row i times right row j, j <= i < count, and some more.
HWY_INLINE void dot_lower(DF d, const PanelRows& left, const PanelRows& right, std::size_t panels, int count,
                          float* HWY_RESTRICT to) {
  for (int j = 0; j < count; j += 4)
    dot_rows(d, left.from(j), right.from(j), panels, count - j, to + j * kTokens + j, kTokens);
}

// Products of a state's rows with tokens, along values. Tokens are turned, [columns][tokens], so that vectors
// run along them; the state's numbers are the scalars.
template <int kLane, int kVectors>
HWY_INLINE void add_column(DF d, Tile<kTileRows, kVectors>& tile, const Quad (&state)[kTileRows],
                           const float* HWY_RESTRICT turned) {
  VF tokens[kVectors];
  FLA_UNROLL for (int n = 0; n < kVectors; ++n) tokens[n] = hn::Load(d, turned + n * kLanes);
  FLA_UNROLL for (int k = 0; k < kTileRows; ++k) {
    const VF scalar = broadcast<kLane>(d, state[k]);
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) tile[k][n] = hn::MulAdd(tokens[n], scalar, tile[k][n]);
  }
}

// to[t * to_row + k] = row k of the state times token t, k < kTileRows and t < kVectors * kLanes.
template <int kVectors>
HWY_INLINE void channel_tile(DF d, const float* HWY_RESTRICT state, const Sizes& size,
                             const float* HWY_RESTRICT turned, std::size_t tokens, float* HWY_RESTRICT to) {
  Tile<kTileRows, kVectors> tile;
  FLA_UNROLL for (int k = 0; k < kTileRows; ++k) {
    FLA_UNROLL for (int n = 0; n < kVectors; ++n) tile[k][n] = hn::Zero(d);
  }
  for (std::size_t p = 0; p < size.panels; ++p, state += size.panel) {
    for (std::size_t v = 0; v < kWidth; v += 4, turned += 4 * tokens) {
      Quad quads[kTileRows];
      FLA_UNROLL for (int k = 0; k < kTileRows; ++k) quads[k] = load_quad(d, state + k * kWidth + v);
      add_column<0, kVectors>(d, tile, quads, turned);
      add_column<1, kVectors>(d, tile, quads, turned + tokens);
      add_column<2, kVectors>(d, tile, quads, turned + 2 * tokens);
      add_column<3, kVectors>(d, tile, quads, turned + 3 * tokens);
    }
  }
  FLA_UNROLL for (int n = 0; n < kVectors; ++n) {
    FLA_UNROLL for (int k = 0; k < kTileRows; k += 4) {
      store_transposed(d, tile[k][n], tile[k + 1][n], tile[k + 2][n], tile[k + 3][n],
                       to + static_cast<std::size_t>(n * kLanes) * size.row + k, size.row);
    }
  }
}

// The same for kParts times kTokens tokens, of each part those before `count`.
template <int kParts>
HWY_INLINE void multiply_channels(DF d, const float* HWY_RESTRICT state, const Sizes& size,
                                  const float* HWY_RESTRICT turned, int count, float* HWY_RESTRICT to) {
  constexpr int kAll = kParts * kTokens, kVectors = kAll < 2 * kLanes ? 1 : 2, kStep = kVectors * kLanes;
  for (int t = 0; t < kAll; t += kStep) {
    if (kStep <= kTokens && t % kTokens >= count) continue;
    channel_tile<kVectors>(d, state, size, turned + t, kAll, to + static_cast<std::size_t>(t) * size.row);
  }
}

// Rows in panels, [panel][rows][kWidth], from row `first` on, as turned ones, `tokens` floats apart.
inline HWY_NOINLINE void turn_values(DF d, const float* HWY_RESTRICT from, std::size_t rows,
                                     std::size_t panels, std::size_t tokens, float* HWY_RESTRICT to) {
  for (std::size_t p = 0; p < panels; ++p, from += rows * kWidth) {
    for (std::size_t v = 0; v < kWidth; v += kLanes, to += kLanes * tokens) {
      for (std::size_t i = 0; i < kTokens; i += 4) {
        const float* const row = from + i * kWidth + v;
        store_transposed(d, hn::Load(d, row), hn::Load(d, row + kWidth), hn::Load(d, row + 2 * kWidth),
                         hn::Load(d, row + 3 * kWidth), to + i, tokens);
      }
    }
  }
}

// to[i] = left row i times right row i, i < 4.
HWY_INLINE void dot_pairs(DF d, const PanelRows& left, const PanelRows& right, std::size_t panels,
                          float* HWY_RESTRICT to) {
  Tile<4, kPanelVectors> sums;
  FLA_UNROLL for (int i = 0; i < 4; ++i) {
    FLA_UNROLL for (int n = 0; n < kPanelVectors; ++n) sums[i][n] = hn::Zero(d);
  }
  const float* HWY_RESTRICT l = left.first;
  const float* HWY_RESTRICT r = right.first;
  for (std::size_t p = 0; p < panels; ++p, l += left.panel, r += right.panel) {
    FLA_UNROLL for (int i = 0; i < 4; ++i) {
      FLA_UNROLL for (int n = 0; n < kPanelVectors; ++n) {
        const std::size_t at = static_cast<std::size_t>(i) * kWidth + static_cast<std::size_t>(n) * kLanes;
        sums[i][n] = hn::MulAdd(hn::Load(d, l + at), hn::Load(d, r + at), sums[i][n]);
      }
    }
  }
  FLA_UNROLL for (int i = 0; i < 4; ++i) sums[i][0] = hn::Add(sums[i][0], sums[i][1]);
  hn::StoreU(sums_of_lanes(d, sums[0][0], sums[1][0], sums[2][0], sums[3][0]), D4(), to);
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
