#pragma once

#include "backends/cuda_backward/keys.cuh"
#include "backends/cuda_backward/outputs.cuh"

/// The gradients of one chunk and value head whose gates have a number a channel (workspace.cuh).
///
///     by values      a warp has 16 values of Z and U, or of dU and dY, each a slice values x tokens
///     pairs          a warp has 16 x 32 of dM or of dN
///     by channels    a warp has 16 channels of half of the tokens: dQ~ dK~ dKr, then the pairs of every
///                    level (keys.cuh):
///
///         dq_i += f_i sum_j dM_ij (f_j k_j)        dk_i likewise with dN
///         dk_j += f_j sum_i dM_ij (f_i q_i) + dN_ij (f_i k_i)
///
/// A product x with a decay from token j to token i adds x dx to the gradient of g_t for j < t <= i. With a_i
/// the sum of x dx over products that end at i, and b_i over those that begin there,
///
///     dg_t = sum_{i >= t} (a_i - b_i) + x dx of the products that reach the chunk's end
///
/// Then dq and dk go through norms by tokens, dg through sums and gates by channels; they change hands in
/// shared memory.
namespace fla::cuda_backward {

inline constexpr int kGradientThreads = 512;
template <Inputs inputs>
using HalfKeys = Keys<kTokenTiles / 2, inputs>;
using HalfSlice = Slice<kTokenTiles / 2>;
using HalfPacked = Packed<kTokenTiles / 2>;
static_assert(HalfKeys<Inputs::any>::kThreads == kGradientThreads);

struct GradientMemory {
  union {
    struct {
      StateTile S, dS;
      SplitRows E;
    };
    struct {
      KeyTile dq, dk;  ///< as they are stored
    };
  };
  union {
    struct {
      RowTile V;
      PairTile M, T, N;  ///< N stays until there are sums
    };
    struct {
      KeyTile q, k;  ///< as keys has them: registers have other uses meanwhile
      union {
        float by_warp[2][kHead / 16][kTokens];  ///< sums over a warp's channels
        float of_parts[2][4][kHead];            ///< over parts of the tokens (ChannelPart)
      };
      float by_token[2][kTokens];  ///< over all channels: of q dq and k dk
    };
  };
  union {
    GateMemory gates;
    struct {
      KeyTile K, Kr;
    };
    struct {
      KeyTile q_of_level, k_of_level;  ///< left operands of the pairs that two warps have
    };
    FloatTile terms;  ///< those of dg
  };
  union alignas(1024) {  // U is an operand of warpgroups, as K, Kr, M and T are
    RawKeys keys;
    struct {
      KeyTile U, dY;
      union {
        KeyTile Z;
        struct {
          PairTile dM, dN;
        };
      };
    };
  };
  PlainRows raw_gates;
  KeyNorms norms;
  Arrival arrival;  ///< of S, dS, M, N and T
  alignas(8) float beta[kTokens];
  float beta_slopes[kTokens];    ///< what gradients of beta are multiplied by
  float beta_pairs[2][kTokens];  ///< N_i U dY_i, over halves of the pairs
  float2 up;                     ///< Scales::up()
  bool last;                     ///< of the heads that share keys
  float whole[2][kHead];         ///< the part of dg that all tokens of the chunk share, by halves
  union {
    float beta_sums[kHead / 16][kTokens];  ///< dY_i Z_i over a warp's values
    float totals[4][kHead];                ///< of parts of tokens (ChannelPart)
  };
};

/// Scales dO to E, in place and in f16.
__device__ inline void scale_rows(SplitRows& rows, DType dtype, float factor) {
  static_assert(kTokens * SplitRows::kRow == 8 * kGradientThreads);
#pragma unroll
  for (auto& half : rows.halves) {
    auto& words = *reinterpret_cast<uint4*>(half.at + threadIdx.x * 8);
    const auto scaled = [&](std::uint32_t word) {
      const float2 x = unpack(word, dtype);
      return pack_f16(factor * x.x, factor * x.y);
    };
    words = {scaled(words.x), scaled(words.y), scaled(words.z), scaled(words.w)};
  }
}

/// d = A B over all channels: A has the warpgroup's values of a state in its rows.
__device__ inline void begin_state_products(Slice<kTokenTiles>& d, const StateTile& state,
                                            const KeyTile& keys) {
  const int first = warpgroup() % 2 * 64;
  const auto right = operand<true>(keys);
  keep(d);
  begin_products();
  add_product<false>(d, operand<false>(state.halves[0]).from(0, first), right);
#pragma unroll
  for (int k = 16; k < kHead; k += 16)
    add_product(d, operand<false>(state.halves[k / 64]).from(k % 64, first), right.from(k));
}

/// Leaves Z and U in shared memory: half of the warps.
template <Inputs inputs>
__device__ void written_values(const BackwardCall& back, GradientMemory& memory, int value,
                               const Scales& scales) {
  Slice<kTokenTiles> z, u;
  begin_state_products(z, memory.S, memory.K);
  end_products();
  wait_for_products<0>();
  keep(z);
#pragma unroll
  for (int s = 0; s < kTokenTiles / 2; ++s) {
    const uint4 words = left_of_transposed(memory.V, value, 16 * s);
    const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 v = unpack(word[i], dtype_of<inputs>(back.call.v));
      float(&pair)[4] = z[2 * s + i / 2];
      pair[i % 2 * 2] = scales.values.down * v.x - pair[i % 2 * 2];
      pair[i % 2 * 2 + 1] = scales.values.down * v.y - pair[i % 2 * 2 + 1];
    }
  }
  put(packed(z), memory.Z, value);
  scale_tokens(z, memory.beta);
  make_products(u, packed(z), operand<false>(memory.T));
  put(packed(u), memory.U, value);
}

/// Leaves dY in shared memory and in registers: the other half.
__device__ inline void value_gradients(GradientMemory& memory, int value, Slice<kTokenTiles>& dY) {
  Slice<kTokenTiles> du;
  begin_state_products(du, memory.dS, memory.Kr);
  const auto E = operand<true>(memory.E.halves[warpgroup() % 2]);
  const auto M = operand<true>(memory.M);
#pragma unroll
  for (int t = 0; t < kTokens; t += 16) add_product(du, E.from(t), M.from(t));
  end_products();
  wait_for_products<0>();
  keep(du);
  make_products(dY, packed(du), operand<true>(memory.T));
  put(packed(dY), memory.dY, value);
}

/// The warp's part of dY_i Z_i.
__device__ inline void put_beta_sums(GradientMemory& memory, int value, const Slice<kTokenTiles>& dY) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  float sums[2 * kTokenTiles];
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const float2 upper = unpack_f16(memory.Z.pair(value + g, 8 * n + 2 * p)),
                 lower = unpack_f16(memory.Z.pair(value + g + 8, 8 * n + 2 * p));
    sums[2 * n] = dY[n][0] * upper.x + dY[n][2] * lower.x;
    sums[2 * n + 1] = dY[n][1] * upper.y + dY[n][3] * lower.y;
  }
  put_token_sums(sums, memory.beta_sums[value / 16]);
}

/// dM, lower triangular, and dN, strictly lower triangular, each by two warpgroups that have half of the
/// columns. With `wide_blocks` the two blocks of 32 x 32 on the diagonal are bf16. Those of dN leave what
/// pairs add to dbeta.
__device__ inline void pair_gradients(GradientMemory& memory, bool wide_blocks) {
  const bool of_M = warpgroup() < 2;
  const int row = static_cast<int>(threadIdx.x) / 32 % 4 * 16, column = warpgroup() % 2 * 32;
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  Slice<kTokenTiles / 2> d;
  const auto U = operand<true>(memory.U).from(0, column);
  const auto make = [&](auto&& left) {
    keep(d);
    begin_products();
    add_product<false>(d, left(0), U);
#pragma unroll
    for (int v = 16; v < kHead; v += 16) add_product(d, left(v), U.from(v));
    end_products();
    wait_for_products<0>();
    keep(d);
  };
  if (of_M)
    make([&](int v) { return operand<false>(memory.E.halves[v / 64]).from(v % 64); });
  else
    make([&](int v) { return operand<true>(memory.dY).from(v); });
  PairTile& to = of_M ? memory.dM : memory.dN;
  const bool wide = wide_blocks && row / 32 * 32 == column;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int i = row + g + 8 * r, least = of_M ? i : i - 1;
    const float factor = of_M ? 1 : -memory.beta[i];
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kTokenTiles / 2; ++n) {
      const int j = column + 8 * n + 2 * p;
      if (!of_M) {
        const float2 N = unpack_f16(memory.N.pair(i, j));
        sum += N.x * d[n][2 * r] + N.y * d[n][2 * r + 1];
      }
      const float x = j > least ? 0 : factor * d[n][2 * r], y = j + 1 > least ? 0 : factor * d[n][2 * r + 1];
      to.pair(i, j) = wide ? pack_bf16(x, y) : pack_f16(x, y);
    }
    if (of_M) continue;
    sum = reduce<4>(sum);
    if (p == 0) memory.beta_pairs[column / 32][i] = sum;
  }
}

/// Gradients of the warp's channels. `terms` is a_i - b_i of the formula above: a pair adds the product of
/// the same rounded operands to a_i and b_j, so that the two cancel.
struct KeyGradients {
  HalfSlice dq, dk, terms = {};
};

/// dx += f y and terms += x y, for one tile; y is the gradient of the scaled operand x.
template <int sign>
__device__ void add_scaled(Fragment& dx, float (&terms)[4], const std::uint32_t (&f)[2],
                           const std::uint32_t (&x)[2], const Fragment& y) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float2 own = unpack_f16(x[r]), decays = unpack_f16(f[r]);
    dx[2 * r] += decays.x * y[2 * r], dx[2 * r + 1] += decays.y * y[2 * r + 1];
    terms[2 * r] += sign * own.x * y[2 * r], terms[2 * r + 1] += sign * own.y * y[2 * r + 1];
  }
}

/// q and k, also with the decays of level 32.
template <class Keys>
__device__ void put_keys_aside(GradientMemory& memory, const Keys& keys) {
  put(keys.q, memory.q, keys.channel, keys.first);
  put(keys.k, memory.k, keys.channel, keys.first);
  const HalfPacked f = keys.template decays<32>();
  put(keys.q * f, memory.q_of_level, keys.channel, keys.first);
  put(keys.k * f, memory.k_of_level, keys.channel, keys.first);
}

/// The pairs of a token in either half. The later half looks back, the other one forth.
template <class Keys>
__device__ void add_halves(const GradientMemory& memory, const Keys& keys, KeyGradients& d) {
  const auto add = [&]<int sign>(std::integral_constant<int, sign>, const KeyTile& operands,
                                 const HalfSlice& y, HalfSlice& dx) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float2 x = unpack_f16(word_of(operands, keys.channel, keys.first, n, r));
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; ++e) {
          dx[n][e] += exp2_decay(sign * (keys.G[n][e] - keys.middle[r])) * y[n][e];
          d.terms[n][e] += sign * (e % 2 ? x.y : x.x) * y[n][e];
        }
      }
    }
  };
  constexpr std::integral_constant<int, 1> kBack;
  constexpr std::integral_constant<int, -1> kForth;
  if (keys.first == 0) {
    HalfSlice y = {};
    multiply<2>(
        y, [&](int s) { return left(memory.q_of_level, keys.channel, 32 + 16 * s); },
        [&](int k, int n) { return right(memory.dM, 32 + k, n); });
    multiply<2>(
        y, [&](int s) { return left(memory.k_of_level, keys.channel, 32 + 16 * s); },
        [&](int k, int n) { return right(memory.dN, 32 + k, n); });
    return add(kForth, memory.k_of_level, y, d.dk);
  }
  const auto earlier = [&](int s) { return left(memory.k_of_level, keys.channel, 16 * s); };
  {
    HalfSlice y = {};
    multiply<2>(y, earlier, [&](int k, int n) { return right_of_transposed(memory.dM, k, 32 + n); });
    add(kBack, memory.q_of_level, y, d.dq);
  }
  HalfSlice y = {};
  multiply<2>(y, earlier, [&](int k, int n) { return right_of_transposed(memory.dN, k, 32 + n); });
  add(kBack, memory.k_of_level, y, d.dk);
}

/// The pairs of the warp's first 16 tokens and the 16 behind them.
template <class Keys>
__device__ void add_sixteens(const GradientMemory& memory, const Keys& keys, KeyGradients& d) {
  const HalfPacked f = keys.template decays<16>(), q = keys.taken(memory.q) * f, k = keys.taken(memory.k) * f;
  const auto looking_back = [&](const PairTile& pairs, const HalfPacked& x, HalfSlice& to) {
    Slice<2> y = {};
    multiply<1>(
        y, [&](int) { return k.left(0); },
        [&](int, int n) { return right_of_transposed(pairs, keys.first, keys.first + 16 + n); });
#pragma unroll
    for (int n = 0; n < 2; ++n) add_scaled<1>(to[2 + n], d.terms[2 + n], f.at[2 + n], x.at[2 + n], y[n]);
  };
  looking_back(memory.dM, q, d.dq);
  looking_back(memory.dN, k, d.dk);
  Slice<2> y = {};
  multiply<1>(
      y, [&](int) { return q.left(1); },
      [&](int, int n) { return right(memory.dM, keys.first + 16, keys.first | n); });
  multiply<1>(
      y, [&](int) { return k.left(1); },
      [&](int, int n) { return right(memory.dN, keys.first + 16, keys.first | n); });
#pragma unroll
  for (int n = 0; n < 2; ++n) add_scaled<-1>(d.dk[n], d.terms[n], f.at[n], k.at[n], y[n]);
}

/// Four 8 x 8 blocks of pairs as right operands, or their transposes: from [row(m)][column(m)] of tile(m) for
/// m = 0 .. 3.
template <bool transposed, class Tile, class Row, class Column>
__device__ void blocks_of_8(Tile&& tile, Row&& row, Column&& column, std::uint32_t (&blocks)[4]) {
  const int m = threadIdx.x % 32 / 8;
  const uint4 words = load_matrices<!transposed>(tile(m).address(0, 0, row(m) + lane_row(), column(m)));
  blocks[0] = words.x, blocks[1] = words.y, blocks[2] = words.z, blocks[3] = words.w;
}

/// The pairs of an 8 x 8 block: of tile `earlier` of the warp with the next one.
__device__ inline void add_block_of_8(int earlier, std::uint32_t dM, std::uint32_t dN, std::uint32_t dMt,
                                      std::uint32_t dNt, const HalfPacked& f, const HalfPacked& q,
                                      const HalfPacked& k, KeyGradients& d) {
  const int later = earlier + 1;
  Fragment x = {}, y = {}, z = {};
  mma_f16(x, k.at[earlier][0], k.at[earlier][1], dM);
  mma_f16(y, k.at[earlier][0], k.at[earlier][1], dN);
  mma_f16(z, q.at[later][0], q.at[later][1], dMt);
  mma_f16(z, k.at[later][0], k.at[later][1], dNt);
  add_scaled<1>(d.dq[later], d.terms[later], f.at[later], q.at[later], x);
  add_scaled<1>(d.dk[later], d.terms[later], f.at[later], k.at[later], y);
  add_scaled<-1>(d.dk[earlier], d.terms[earlier], f.at[earlier], k.at[earlier], z);
}

/// Level 8: two blocks.
template <class Keys>
__device__ void add_eights(const GradientMemory& memory, const Keys& keys, KeyGradients& d) {
  const HalfPacked f = keys.template decays<8>(), q = keys.taken(memory.q) * f, k = keys.taken(memory.k) * f;
  const auto tile = [&](int m) -> const PairTile& { return m < 2 ? memory.dM : memory.dN; };
  const auto row = [&](int m) { return keys.first + m % 2 * 16 + 8; };
  const auto column = [&](int m) { return keys.first + m % 2 * 16; };
  std::uint32_t back[4], front[4];
  blocks_of_8<true>(tile, row, column, back);
  blocks_of_8<false>(tile, row, column, front);
#pragma unroll
  for (int m = 0; m < 2; ++m) add_block_of_8(2 * m, back[m], back[m + 2], front[m], front[m + 2], f, q, k, d);
}

/// Levels 4 and 2, in a loop: the four blocks on the diagonal. A lane's two tokens are both earlier ones of
/// the level or both later ones, so that one sum has what dk gets of either side.
template <class Keys>
__device__ void add_small_levels(const GradientMemory& memory, const Keys& keys, KeyGradients& d) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  const auto at = [&](int m) { return keys.first + 8 * m; };
#pragma unroll 1
  for (int half = 4; half >= 2; half /= 2) {
    // Of the right operands what belongs to this level: rows are contracted over p, columns are g.
    const auto own = [&](int later, int earlier) {
      return (later & half) && !(earlier & half) && (later ^ earlier) < 2 * half;
    };
    const bool back_own = own(g, 2 * p), front_own = own(2 * p, g);
    HalfPacked f;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      Fragment own;
      keys.decays_within_tile(half, n, own);
      f.at[n][0] = pack_f16(own[0], own[1]), f.at[n][1] = pack_f16(own[2], own[3]);
    }
    const HalfPacked q = keys.taken(memory.q) * f, k = keys.taken(memory.k) * f;
    std::uint32_t dM[4], dN[4], dMt[4], dNt[4];
    blocks_of_8<true>([&](int) -> const PairTile& { return memory.dM; }, at, at, dM);
    blocks_of_8<true>([&](int) -> const PairTile& { return memory.dN; }, at, at, dN);
    blocks_of_8<false>([&](int) -> const PairTile& { return memory.dM; }, at, at, dMt);
    blocks_of_8<false>([&](int) -> const PairTile& { return memory.dN; }, at, at, dNt);
    const std::uint32_t signs = 2 * p & half ? 0 : 0x80008000u;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      Fragment x = {}, y = {};
      mma_f16(x, k.at[m][0], k.at[m][1], back_own ? dM[m] : 0);
      mma_f16(y, k.at[m][0], k.at[m][1], back_own ? dN[m] : 0);
      mma_f16(y, q.at[m][0], q.at[m][1], front_own ? dMt[m] : 0);
      mma_f16(y, k.at[m][0], k.at[m][1], front_own ? dNt[m] : 0);
      const std::uint32_t signed_k[2] = {k.at[m][0] ^ signs, k.at[m][1] ^ signs};
      add_scaled<1>(d.dq[m], d.terms[m], f.at[m], q.at[m], x);
      add_scaled<1>(d.dk[m], d.terms[m], f.at[m], signed_k, y);
    }
  }
}

/// Neighbouring tokens, and every token with itself.
template <class Keys>
__device__ void add_own_pairs(const GradientMemory& memory, const Keys& keys, KeyGradients& d) {
  const int p = threadIdx.x % 4;
  const auto number = [](const PairTile& pairs, int i, int j) {
    return unpack_f16(pairs.at[PairTile::index(i, j)]).x;
  };
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const int j = (keys.first | 8 * n) + 2 * p, i = j + 1;
    const float dM = number(memory.dM, i, j), dN = number(memory.dN, i, j);
    const float of_j = number(memory.dM, j, j), of_i = number(memory.dM, i, i);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float2 q = unpack_f16(word_of(memory.q, keys.channel, keys.first, n, r)),
                   k = unpack_f16(word_of(memory.k, keys.channel, keys.first, n, r));
      const float f = exp2_decay(keys.G[n][2 * r + 1] - keys.G[n][2 * r]);
      const float of_both = f * (dM * q.y + dN * k.y);
      d.dq[n][2 * r] += of_j * k.x;
      d.dq[n][2 * r + 1] += of_i * k.y + f * dM * k.x;
      d.dk[n][2 * r] += of_j * q.x + of_both;
      d.dk[n][2 * r + 1] += of_i * q.y + f * dN * k.x;
      d.terms[n][2 * r] -= of_both * k.x;
      d.terms[n][2 * r + 1] += of_both * k.x;
    }
  }
}

/// The pairs within the warp's 32 tokens where decays have a range that the format holds (keys.cuh).
template <bool wide, class Keys>
__device__ void add_close_pairs(const GradientMemory& memory, const Keys& keys, KeyGradients& d) {
  using F = Format<wide>;
  const auto factors = keys.template close_factors<wide>();
  const HalfPacked &q = factors.q, &k = factors.k, &earlier = factors.earlier;
  const auto with_all = [&](int n, auto&& body) {  // of tiles n and n + 1
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) body(m, e, n + m, keys.G[n + m][e] - factors.middle[0][e / 2]);
    }
  };
  const auto number = [](const HalfPacked& x, int n, int e) {
    const float2 pair = F::unpack(x.at[n][e / 2]);
    return e % 2 ? pair.y : pair.x;
  };
#pragma unroll
  for (int n = 0; n < 4; n += 2) {
    {
      Slice<2> x = {}, y = {};
#pragma unroll
      for (int s = 0; 2 * s <= n; ++s) {
        const int column = keys.first | 16 * s, row = keys.first + 8 * n;
        F::multiply(x[0], x[1], earlier.left(s), right_of_transposed(memory.dM, column, row));
        F::multiply(y[0], y[1], earlier.left(s), right_of_transposed(memory.dN, column, row));
      }
      with_all(n, [&](int m, int e, int tile, float G) {
        const float f = exp2_approximately(G);
        d.dq[tile][e] += f * x[m][e];
        d.dk[tile][e] += f * y[m][e];
        d.terms[tile][e] += number(q, tile, e) * x[m][e] + number(k, tile, e) * y[m][e];
      });
    }
    Slice<2> z = {};
#pragma unroll
    for (int s = n / 2; s < 2; ++s) {
      const int row = keys.first + 16 * s, column = keys.first | 8 * n;
      F::multiply(z[0], z[1], q.left(s), right(memory.dM, row, column));
      F::multiply(z[0], z[1], k.left(s), right(memory.dN, row, column));
    }
    with_all(n, [&](int m, int e, int tile, float G) {
      d.dk[tile][e] += exp2_approximately(-G) * z[m][e];
      d.terms[tile][e] -= number(earlier, tile, e) * z[m][e];
    });
  }
}

/// The products over values: x = S E^T, y = S dY, z = dS' U; and S dS', of which the two warps that share
/// channels have half of the values each.
struct StateProducts {
  HalfSlice x, y, z;
  float whole[2] = {};

  __device__ void add_to_whole(const uint4& S, const uint4& dS) {
    const auto product = [](std::uint32_t a, std::uint32_t b) {
      const float2 own = unpack_f16(a), other = unpack_f16(b);
      return own.x * other.x + own.y * other.y;
    };
    whole[0] += product(S.x, dS.x) + product(S.z, dS.z);
    whole[1] += product(S.y, dS.y) + product(S.w, dS.w);
  }
  /// By warps: there are no registers left for results that have to lie in a row.
  template <class Keys>
  __device__ StateProducts(const GradientMemory& memory, const Keys& keys) : x{}, y{}, z{} {
#pragma unroll 2
    for (int v = 0; v < kHead; v += 16) {
      const uint4 S = left_of_transposed(memory.S, keys.channel, v),
                  dS = left_of_transposed(memory.dS, keys.channel, v);
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        multiply(x[n], x[n + 1], S, right_of_transposed(memory.E, v, keys.first + 8 * n));
        multiply(y[n], y[n + 1], S, right(memory.dY, v, keys.first | 8 * n));
        multiply(z[n], z[n + 1], dS, right(memory.U, v, keys.first | 8 * n));
      }
      if (v / (kHead / 2) == keys.first / 32) add_to_whole(S, dS);
    }
  }
};

/// dq and dk before the norm. memory.whole is there after the next barrier.
template <class Keys>
__device__ void key_gradients(GradientMemory& memory, Keys& keys, KeyGradients& d) {
  {
    StateProducts products(memory, keys);
    auto& whole = products.whole;
    HalfSlice &dq = products.x, &reading = products.y, &writing = products.z;
    keys.take_again(memory.q, memory.k);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      whole[r] *= exp2_decay(keys.last[r]);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 q = unpack_f16(keys.q.at[n][r]), k = unpack_f16(keys.k.at[n][r]),
                     beta = pair_of_tokens(memory.beta, n, keys.first);
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; ++e) {
          const float G = keys.G[n][e], f = exp2_decay(G);
          dq[n][e] *= f, reading[n][e] *= -f * (e % 2 ? beta.y : beta.x);
          writing[n][e] *= exp2_decay(keys.last[r] - G);
          whole[r] += (e % 2 ? k.y : k.x) * writing[n][e];
          d.dq[n][e] = dq[n][e], d.dk[n][e] = reading[n][e] + writing[n][e];
          d.terms[n][e] +=
              (e % 2 ? q.y : q.x) * dq[n][e] + (e % 2 ? k.y : k.x) * (reading[n][e] - writing[n][e]);
        }
      }
      whole[r] = reduce<4>(whole[r]);
      if (threadIdx.x % 4 == 0)
        memory.whole[keys.first / 32][keys.channel + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * r] =
            whole[r];
    }
  }
  keys.take_again(memory.q, memory.k);
  add_halves(memory, keys, d);
  keys.take_again(memory.q, memory.k);
  if (keys.amount == Amount::little) {
    add_close_pairs<false>(memory, keys, d);
  } else if (keys.amount == Amount::some) {
    add_close_pairs<true>(memory, keys, d);
  } else {
    add_sixteens(memory, keys, d);
    add_eights(memory, keys, d);
    add_small_levels(memory, keys, d);
    add_own_pairs(memory, keys, d);
  }
}

template <class Keys>
__device__ void put(const HalfSlice& x, FloatTile& tile, const Keys& keys) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      tile[(keys.first + 8 * n + 2 * p + i % 2) * kSliceRow + keys.channel + g + i / 2 * 8] = x[n][i];
  }
}

/// The warp's part of y^T dy, which the gradient through the norm of y needs.
template <class Keys>
__device__ void put_key_sums(GradientMemory& memory, const Keys& keys, const KeyGradients& d) {
  const auto put_products = [&](int which, const HalfPacked& y, const HalfSlice& dy) {
    float sums[8] = {};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float2 own = unpack_f16(y.at[n][r]);
        sums[2 * n] += own.x * dy[n][2 * r], sums[2 * n + 1] += own.y * dy[n][2 * r + 1];
      }
    }
    put_token_sums(sums, memory.by_warp[which][keys.channel / 16] + keys.first);
  };
  put_products(0, keys.q, d.dq);
  put_products(1, keys.k, d.dk);
}

/// Of y = r x, r the inverse norm: dx = r (dy - y (y^T dy)) times `up`, in the format in which it is stored.
template <class Keys>
__device__ void put_keys(const GradientMemory& memory, const Keys& keys, float2 up, int which,
                         const HalfPacked& own, const HalfSlice& dy, const Rows& rows, KeyTile& tile) {
  if (!rows.data) return;
  const int p = threadIdx.x % 4;
  const bool narrow = rows.dtype == DType::f16;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const int t = (keys.first | 8 * n) + 2 * p;
    const float2 inverse = *reinterpret_cast<const float2*>(memory.norms[which] + t),
                 norm{up.y * inverse.x, up.y * inverse.y},
                 sum = *reinterpret_cast<const float2*>(memory.by_token[which] + t);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float2 y = unpack_f16(own.at[n][r]);
      const float x0 = norm.x * (dy[n][2 * r] - y.x * sum.x) * up.x,
                  x1 = norm.y * (dy[n][2 * r + 1] - y.y * sum.y) * up.x;
      word_of(tile, keys.channel, keys.first, n, r) = narrow ? pack_f16(x0, x1) : pack_bf16(x0, x1);
    }
  }
}

/// Eight threads have a token, eight channels at a time.
__device__ inline void store_gates(const Rows& rows, int head, int K, const TokenRange& range,
                                   const FloatTile& tile) {
  const int t = threadIdx.x / 8;
  if (t >= range.count) return;
  const std::int64_t at = range.batch * rows.batch + (range.first + t) * rows.token + head * rows.head;
#pragma unroll 1
  for (int c = static_cast<int>(threadIdx.x) % 8 * 8; c < K; c += 64) {
    const float4* const from = reinterpret_cast<const float4*>(tile + t * kSliceRow + c);
    // Half of the threads have the upper numbers first: those of eight threads then lie in different banks.
    const int turned = threadIdx.x / 4 % 2;
    const float4 first = from[turned], second = from[1 - turned], lower = turned ? second : first,
                 upper = turned ? first : second;
    const float x[8] = {lower.x, lower.y, lower.z, lower.w, upper.x, upper.y, upper.z, upper.w};
    if (is_16_bit(rows.dtype)) {
      store_8(rows.data, rows.dtype, at + c, x);
    } else {
      float4* const to = reinterpret_cast<float4*>(static_cast<float*>(rows.data) + at + c);
      to[0] = lower, to[1] = upper;
    }
  }
}

/// From terms to the gradients of log-decays, and of what these are made from. `parts`: [2][kHead], of this
/// chunk and head. All threads do meanwhile() after a barrier.
template <Inputs inputs, class Meanwhile>
__device__ void gate_gradients(const BackwardCall& back, GradientMemory& memory, int head,
                               const TokenRange& range, float* parts, Meanwhile&& meanwhile) {
  const RecurrenceCall& call = back.call;
  const float rate = gate_rate(call, head);
  const float2 up = memory.up;
  const auto scaled = [&](float x) { return x * up.x * up.y; };
  using Part = ChannelPart<kGradientThreads>;
  const Part own;
  const RawGates<inputs> gates(call, head, range, memory.raw_gates, own);
  float* const place = memory.terms + own.first * kSliceRow + own.channel;
  float terms[Part::kOwn], sum = 0;
#pragma unroll
  for (int t = Part::kOwn - 1; t >= 0; --t) terms[t] = sum += place[t * kSliceRow];
  memory.totals[own.part][own.channel] = sum;
  const float bias = gate_bias(call, head, own.channel);
  __syncthreads();
  meanwhile();
  float others = memory.whole[0][own.channel] + memory.whole[1][own.channel];
  for (int part = Part::kParts - 1; part > own.part; --part) others += memory.totals[part][own.channel];
  GateSums sums;
  if (call.gate == Gate::bounded) {  // the usual gate, in few instructions
    const float slope = call.lower_bound * rate * up.y;
#pragma unroll
    for (int t = 0; t < Part::kOwn; ++t) {
      const float in = gates[t] + bias,
                  x = up.x * (terms[t] + others) * slope * fast_sigmoid_slope(rate * in);
      place[t * kSliceRow] = x;
      const float counted = t < gates.count ? x : 0;
      sums.offset += counted;
      sums.rate += counted * in;
    }
  } else {
#pragma unroll
    for (int t = 0; t < Part::kOwn; ++t) place[t * kSliceRow] = terms[t];
#pragma unroll 1
    for (int t = 0; t < gates.count; ++t) {
      float& term = place[t * kSliceRow];
      term = go_through_gate(call, gates[t], scaled(term + others), rate, bias, sums);
    }
  }
  memory.of_parts[0][own.part][own.channel] = sums.offset;
  memory.of_parts[1][own.part][own.channel] = sums.rate;
  __syncthreads();
  if (own.part < 2) {
    float all = 0;
#pragma unroll
    for (int part = 0; part < Part::kParts; ++part) all += memory.of_parts[own.part][part][own.channel];
    parts[own.part * kHead + own.channel] = all;
  }
  if (back.dg.data) store_gates(back.dg, head, call.K, range, memory.terms);
}

template <Inputs inputs>
__global__ void __launch_bounds__(kGradientThreads, 1)
    gradients(const __grid_constant__ BackwardCall back, const __grid_constant__ BackwardMemory workspace) {
  extern __shared__ __align__(1024) char shared[];
  auto& memory = *reinterpret_cast<GradientMemory*>(shared);
  const RecurrenceCall& call = back.call;
  const ChunkOfBlock<kTokens> chunk(call, call.HV);
  ChunkMemory& own = workspace.chunks[blockIdx.x];
  const ChannelMemory& operators = workspace.channels[blockIdx.x];
  float* const parts = own.factors[0];
  if (chunk.count == 0) {
    for (int i = threadIdx.x; i < 2 * kHead; i += kGradientThreads) parts[i] = 0;
    return;
  }
  const int head = chunk.head;
  const TokenRange range = chunk.range();
  const Largest largest = workspace.largest[chunk.n * call.HV + head];
  const HeldBeta beta(call, head, range, static_cast<int>(threadIdx.x));
  HalfKeys<inputs> keys(call, head, range, memory.keys, memory.raw_gates, memory.gates, memory.norms, [&] {
    if (threadIdx.x == 0) {
      memory.arrival.begin();
      memory.arrival.expect(2 * state_bytes(call.V) + 3 * sizeof(PairTile));
      copy_bulk(own.S, memory.S, call.V, memory.arrival);
      copy_bulk(own.dS, memory.dS, call.V, memory.arrival);
      copy_bulk(own.M, memory.M, memory.arrival);
      copy_bulk(operators.N, memory.N, memory.arrival);
      copy_bulk(operators.T, memory.T, memory.arrival);
    }
    copy_input<kGradientThreads>(call.v, head, 0, call.V, range, memory.V);
    copy_input<kGradientThreads>(back.do_, head, 0, call.V, range, memory.E);
  });
  __syncthreads();  // the gates' memory becomes that of K and Kr
  put(keys.k * keys.template decays_from_front<false>(), memory.K, keys.channel, keys.first);
  put(keys.k * keys.decays_to_back(), memory.Kr, keys.channel, keys.first);
  if (const int t = threadIdx.x; t < kTokens) {
    memory.beta[t] = beta.value(call);
    memory.beta_slopes[t] = beta_slope(call, beta);
  }
  const Scales scales(largest);
  if (threadIdx.x == 0) memory.up = scales.up();
  __pipeline_wait_prior(0);
  memory.arrival.wait(0);
  if (call.V < kHead) {  // carry has not written these
    clear_rows<kGradientThreads>(memory.S, call.V);
    clear_rows<kGradientThreads>(memory.dS, call.V);
  }
  __syncthreads();
  scale_rows(memory.E, dtype_of<inputs>(back.do_), scales.gradients.down * call.scale);
  show_to_products();
  __syncthreads();
  keys.forget_what_follows();
  Slice<kTokenTiles> dY;
  const int value = keys.channel;
  const bool of_written = keys.first == 0;
  if (of_written)
    written_values<inputs>(back, memory, value, scales);
  else
    value_gradients(memory, value, dY);
  show_to_products();
  __syncthreads();
  if (!of_written) put_beta_sums(memory, value, dY);
  put_keys_aside(memory, keys);
  keys.forget_what_follows();
  __syncthreads();
  pair_gradients(memory, keys.amount == Amount::some);
  __syncthreads();

  KeyGradients d;
  key_gradients(memory, keys, d);
  keys.take_again(memory.q, memory.k);
  put_key_sums(memory, keys, d);
  __syncthreads();
  if (const int i = threadIdx.x; i < 2 * kTokens)
    memory.by_token[i / kTokens][i % kTokens] = token_sum(memory.by_warp[i / kTokens], i % kTokens);
  if (const int t = static_cast<int>(threadIdx.x) - kGradientThreads / 2;
      t >= 0 && t < range.count && back.dbeta.data) {
    const Rows& rows = back.dbeta;
    const float2 up = memory.up;
    store(rows.data, rows.dtype, range.batch * rows.batch + (range.first + t) * rows.token + head * rows.head,
          (token_sum(memory.beta_sums, t) - memory.beta_pairs[0][t] - memory.beta_pairs[1][t]) * up.x * up.y *
              memory.beta_slopes[t]);
  }
  put(d.terms, memory.terms, keys);
  store_values<kGradientThreads>(back.dv, head, call.V, range, memory.dY, memory.beta, scales.gradients.up);
  __syncthreads();
  const int key_head = inputs == Inputs::any ? head / call.group : head;
  float2 up = memory.up;
  bool stores = true;
  if (inputs == Inputs::any && call.group > 1) {
    const int i = threadIdx.x;
    PartWords<kGradientThreads, kTokenTiles / 2>(d.dq, d.dk).store(own.parts);
    if (i < 2 * kTokens) own.products[i] = memory.by_token[i / kTokens][i % kTokens];
    stores = last_of_group(call, workspace, chunk.place, key_head, memory.last);
    if (stores) {
      KeySums<kGradientThreads, kTokenTiles / 2> sums;
      sums.add_heads(call, workspace, chunk, key_head * call.group, (key_head + 1) * call.group - 1);
#pragma unroll
      for (int n = 0; n < kTokenTiles / 2; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) d.dq[n][e] = sums.dq[n][e], d.dk[n][e] = sums.dk[n][e];
      }
      if (i < 2 * kTokens) memory.by_token[i / kTokens][i % kTokens] = sums.products;
    }
    up = {1, 1};
    __syncthreads();
  }
  if (stores) {
    keys.take_again(memory.q, memory.k);
    put_keys(memory, keys, up, 0, keys.q, d.dq, back.dq, memory.dq);
    put_keys(memory, keys, up, 1, keys.k, d.dk, back.dk, memory.dk);
  }
  gate_gradients<inputs>(back, memory, head, range, parts, [&] {
    if (!stores) return;
    store_keys<kGradientThreads>(back.dq, key_head, call.K, range, memory.dq);
    store_keys<kGradientThreads>(back.dk, key_head, call.K, range, memory.dk);
  });
}

}  // namespace fla::cuda_backward
