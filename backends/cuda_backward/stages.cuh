#pragma once

#include "backends/cuda_backward/carry_task.cuh"
#include "backends/cuda_backward/wgmma.cuh"

/// What is copied of a chunk for carry, and what the chunk does to the state there, or to its gradient. Both
/// are rows of S^T, 16 values of a warp.
namespace fla::cuda_backward {

struct Empty {};

/// A warp's values of S^T [16 x 128 channels]: halves of channels, as rows of keys lie in shared memory.
struct StateSlice {
  static constexpr int kTiles = kHead / 16;
  Fragment halves[2][kTiles];

  __device__ Fragment& operator[](int tile) { return halves[tile / kTiles][tile % kTiles]; }
  __device__ const Fragment& operator[](int tile) const { return halves[tile / kTiles][tile % kTiles]; }
  __device__ void scale(float factor) {
#pragma unroll
    for (int tile = 0; tile < 2 * kTiles; ++tile) {
#pragma unroll
      for (float& x : (*this)[tile]) x *= factor;
    }
  }
  __device__ void keep() { cuda::keep(halves[0]), cuda::keep(halves[1]); }
};

/// V, as it comes, or E in f16.
using GivenTile = Tile<kTokens, kCarryValues>;
struct GivenRows {
  int row;       ///< the warp's first value
  float factor;  ///< of V
  DType dtype;   ///< of V

  /// Left operands of 16 tokens each.
  __device__ void load(const GivenTile& rows, uint4 (&words)[kTokens / 16]) const {
#pragma unroll
    for (int t = 0; t < kTokens / 16; ++t) words[t] = left_of_transposed(rows, row, 16 * t);
  }
  __device__ float2 pair(std::uint32_t word) const {
    const float2 x = unpack(word, dtype);
    return {factor * x.x, factor * x.y};
  }
};

/// Calls body(tile, r, word) for all words of left operands over tokens: rows g + 8 r of a tile.
template <class Body>
__device__ void with_words(uint4 (&operand)[kTokens / 16], Body&& body) {
#pragma unroll
  for (int t = 0; t < kTokens / 16; ++t) {
    body(2 * t, 0, operand[t].x), body(2 * t, 1, operand[t].y);
    body(2 * t + 1, 0, operand[t].z), body(2 * t + 1, 1, operand[t].w);
  }
}

/// d += A B, or d = A B, over the tokens of A, which is in registers.
template <bool add, int tiles, class Right>
__device__ void begin_over_tokens(Fragment (&d)[tiles], const uint4 (&left)[kTokens / 16], Right&& right) {
  begin_products();
  add_product<add>(d, left[0], right(0));
#pragma unroll
  for (int t = 16; t < kTokens; t += 16) add_product(d, left[t / 16], right(t));
  end_products();
}
/// The same over the channels of a state.
template <class Right>
__device__ void begin_over_channels(Slice<kTokenTiles>& d, const uint4 (&left)[kHead / 16], Right&& right) {
  begin_products();
  add_product<false>(d, left[0], right(0));
#pragma unroll
  for (int c = 16; c < kHead; c += 16) add_product(d, left[c / 16], right(c));
  end_products();
}
__device__ inline void left_of_state(const Packed<kHead / 8>& state, uint4 (&left)[kHead / 16]) {
#pragma unroll
  for (int i = 0; i < kHead / 16; ++i) left[i] = state.left(i);
}

/// Where gates have a number a channel:
///
///                                     forward        back
///     Y = R - A S                     R = V, A = K~  R = 0, A = K^
///     S <- diag(gamma) S + B^T Y      B = K^         B = K~, and + Q^^T E
///
///     1       S^T in f16: a left operand
///     2       Y^T [16 x 64 tokens], and then it is one
///     3       S^T
template <Direction direction>
struct alignas(1024) ChannelStage {
  static constexpr bool kBack = direction == Direction::back, kHasResult = false;
  using Result = Empty;

  KeyTile Kt, Kh;
  std::conditional_t<kBack, KeyTile, Empty> Qh;
  GivenTile rows;
  float factors[2][kHead];  ///< ChunkMemory's

  __device__ void fetch(const BackwardMemory& workspace, std::int64_t number, std::int64_t,
                        Arrival& arrival) {
    const ChannelMemory& from = workspace.channels[number];
    arrival.expect((kBack ? 3 : 2) * sizeof(KeyTile) + sizeof(factors));
    copy_bulk(from.Kh, Kh, arrival);
    copy_bulk(from.Kt, Kt, arrival);
    if constexpr (kBack) copy_bulk(from.Qh, Qh, arrival);
    copy_bulk(workspace.chunks[number].factors, factors, arrival);
  }

  __device__ float2 pair_of(int which, int tile) const {
    return *reinterpret_cast<const float2*>(factors[which] + 8 * tile + 2 * (threadIdx.x % 4));
  }
  __device__ void go_through(Packed<kHead / 8>& own, const GivenRows& given, Empty&, StateSlice& s) const {
    if constexpr (!kBack) {
#pragma unroll
      for (int tile = 0; tile < kHead / 8; ++tile) {
        const float2 first = pair_of(1, tile);
#pragma unroll
        for (int r = 0; r < 2; ++r)
          own.at[tile][r] = pack_finite_f16(first.x * s[tile][2 * r], first.y * s[tile][2 * r + 1]);
      }
    }
    uint4 a[kHead / 16], of_rows[kTokens / 16], Y[kTokens / 16];
    left_of_state(own, a);
    Slice<kTokenTiles> y;
    Fragment change[kHead / 8];
    begin_over_channels(y, a, [&](int c) { return operand<true>(kBack ? Kh : Kt).from(c); });
    given.load(rows, of_rows);
    if constexpr (kBack) {  // what does not need Y, meanwhile
      keep(of_rows);
      begin_over_tokens<false>(change, of_rows, [&](int t) { return operand<false>(Qh).from(t); });
    }
    wait_for_products<kBack ? 1 : 0>();
    keep(y), keep(a);
#pragma unroll
    for (int t = 0; t < kTokens / 16; ++t) Y[t] = kBack ? uint4{0, 0, 0, 0} : of_rows[t];
    with_words(Y, [&](int n, int r, std::uint32_t& word) {
      const float2 x = kBack ? float2{0, 0} : given.pair(word);
      word = pack_finite_f16(x.x - y[n][2 * r], x.y - y[n][2 * r + 1]);
    });
    keep(Y);
    begin_over_tokens<kBack>(change, Y, [&](int t) { return operand<false>(kBack ? Kt : Kh).from(t); });
    wait_for_products<0>();
    keep(change), keep(Y);
    if constexpr (kBack) keep(of_rows);
#pragma unroll
    for (int tile = 0; tile < kHead / 8; ++tile) {
      const float2 gamma = pair_of(0, tile), first = kBack ? pair_of(1, tile) : float2{1, 1};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        s[tile][e] = (e % 2 ? gamma.y : gamma.x) * s[tile][e] + (e % 2 ? first.y : first.x) * change[tile][e];
    }
  }
};

/// Where gates have a number a token. Keys are the same for K~ and Kr: numbers of tokens multiply the other
/// factor of a product.
///
///             forward                            back
///     1       S^T in f16: a left operand         dS^T
///     2       Z^T                                dU^T
///     3       X^T: a result                      dY^T
///     4       S^T                                dS^T
template <Direction direction>
struct alignas(1024) TokenStage {
  static constexpr bool kBack = direction == Direction::back, kHasResult = true;
  using Result = Tile<kCarryValues, kTokens>;

  SplitRows k;
  PairTile P;
  std::conditional_t<kBack, SplitRows, Empty> q;
  std::conditional_t<kBack, PairTile, Empty> M;
  GivenTile rows;
  TokenNumbers numbers;

  __device__ void fetch(const BackwardMemory& workspace, std::int64_t number, std::int64_t key_number,
                        Arrival& arrival) {
    const KeyMemory& keys = workspace.keys[key_number];
    const TokenMemory& from = workspace.tokens[number];
    arrival.expect((kBack ? 2 : 1) * (sizeof(SplitRows) + sizeof(PairTile)) + sizeof(numbers));
    copy_bulk(keys.k, k, arrival);
    copy_bulk(from.numbers, numbers, arrival);
    if constexpr (kBack) copy_bulk(workspace.chunks[number].M, M, arrival);
    copy_bulk(from.P, P, arrival);
    if constexpr (kBack) copy_bulk(keys.q, q, arrival);
  }

  __device__ void go_through(const Packed<kHead / 8>& own, const GivenRows& given, Result& result,
                             StateSlice& s) const {
    uint4 a[kHead / 16], of_rows[kTokens / 16], weighted[kTokens / 16];
    left_of_state(own, a);
    Slice<kTokenTiles> y;
    begin_over_channels(y, a, [&](int c) { return operand<false>(k.halves[c / 64]).from(c % 64); });
    given.load(rows, of_rows);
    // Numbers are in registers before a wait: nobody is beside this warp to hide their latency.
    float2 beta[kTokenTiles], factors[kTokenTiles];
    load_pairs(kBack ? numbers.back : numbers.front, factors);
    load_pairs(numbers.beta, beta);
    if constexpr (kBack) {
      Slice<kTokenTiles> of_M;
      uint4 decayed[kTokens / 16];
      keep(of_rows);
      begin_over_tokens<false>(of_M, of_rows, [&](int t) { return operand<true>(M).from(t); });
      for (int t = 0; t < kTokens / 16; ++t) decayed[t] = of_rows[t];
      with_words(decayed, [&](int n, int, std::uint32_t& word) {
        word = multiply_f16(word, *reinterpret_cast<const std::uint32_t*>(numbers.behind_first + 8 * n +
                                                                          2 * (threadIdx.x % 4)));
      });
      s.scale(exp2_decay(numbers.G[kTokens - 1] - numbers.G[0]));
      keep(decayed);
      add_tokens(s, decayed, q);
      wait_for_products<1>();
      keep(y), keep(a), keep(of_M), keep(of_rows);
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) y[n][e] = (e % 2 ? factors[n].y : factors[n].x) * y[n][e] + of_M[n][e];
      }
      begin_solving(y, beta, weighted);
      load_pairs(kBack ? numbers.read : numbers.written, factors);
      wait_for_products<0>();
      keep(decayed);
    } else {
      s.scale(numbers.front[kTokens - 1]);
      wait_for_products<0>();
      keep(y), keep(a);
      with_words(of_rows, [&](int n, int r, std::uint32_t word) {
        const float2 v = given.pair(word);
        y[n][2 * r] = v.x - factors[n].x * y[n][2 * r],
                 y[n][2 * r + 1] = v.y - factors[n].y * y[n][2 * r + 1];
      });
      begin_solving(y, beta, weighted);
      load_pairs(kBack ? numbers.read : numbers.written, factors);
      wait_for_products<0>();
    }
    keep(y), keep(weighted);
    with_words(weighted, [&](int n, int r, std::uint32_t& word) {
      const float x0 = y[n][2 * r], x1 = y[n][2 * r + 1];
      word = kBack ? pack_finite_f16(-factors[n].x * x0, -factors[n].y * x1)
                   : pack_finite_f16(factors[n].x * x0, factors[n].y * x1);
    });
    keep(weighted);
    add_tokens(s, weighted, k);
    put_matrices(packed_finite(y), result, given.row);
    wait_for_products<0>();
    s.keep(), keep(weighted);
    if constexpr (kBack) s.scale(numbers.front[0]);
  }

 private:
  /// Begins Z to X, or dU to dY.
  __device__ void begin_solving(Slice<kTokenTiles>& y, const float2 (&beta)[kTokenTiles],
                                uint4 (&weighted)[kTokens / 16]) const {
    with_words(weighted, [&](int n, int r, std::uint32_t& word) {
      word = pack_finite_f16(-beta[n].x * y[n][2 * r], -beta[n].y * y[n][2 * r + 1]);
    });
    keep(weighted), keep(y);
    begin_over_tokens<true>(y, weighted, [&](int t) { return operand<kBack>(P).from(t); });
  }
  /// Begins s += left rows.
  __device__ static void add_tokens(StateSlice& s, const uint4 (&left)[kTokens / 16], const SplitRows& rows) {
    begin_products();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int t = 0; t < kTokens; t += 16)
        add_product(s.halves[half], left[t / 16], operand<true>(rows.halves[half]).from(t));
    }
    end_products();
  }
};

}  // namespace fla::cuda_backward
