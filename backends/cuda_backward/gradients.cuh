#pragma once

#include "backends/cuda_backward/keys.cuh"
#include "fla/ops/recurrence/cuda/backward/gates.cuh"

/// The gradients of one chunk and value head (workspace.cuh).
///
///     by values      a warp has 16 values:     Z U D dU dV dY, each a slice values x tokens
///     pairs          a warp has 16 x 32 of dM and of dN
///     by channels    a warp has 16 channels:   dQ~ dK~ dKr, then the pairs of every level (keys.cuh):
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

struct GradientMemory {
  union {
    struct {
      StateTile S, dS;
      RowTile E, V;
      PairTile M, N, T2;
    };
    struct {
      FloatTile dq, dk, terms;  ///< terms: those of dg
      RowTile q_again;
    };
  };
  union {
    struct {
      KeyTile K, Kr;
    };
    GateMemory gates;
  };
  union {
    KeyMemory keys;
    struct {
      union {
        KeyTile U;
        RowTile k_again;
      };
      KeyTile dV;
      PairTile dM, dN;
    };
  };
  PlainRows raw_gates;
  KeyNorms norms;
  float by_warp[kBlockWarps][kTokens];  ///< partial sums over values
  float whole[kHead];                   ///< the part of dg that all tokens of the chunk share
  float halves[kHead];
};

/// Sums over rows of a slice are in by_warp after the next barrier.
__device__ inline void put_token_sums(GradientMemory& memory, const float (&sums)[kTokenTiles][2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = reduce<8, 4>(sums[n][i]);
      if (lane < 4) memory.by_warp[threadIdx.x / 32][8 * n + 2 * lane + i] = sum;
    }
  }
}
__device__ inline float token_sum(const GradientMemory& memory, int t) {
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kBlockWarps; ++warp) sum += memory.by_warp[warp][t];
  return sum;
}

/// Scales dO to E, in place and in f16.
__device__ inline void scale_rows(RowTile& rows, DType dtype, float factor) {
#pragma unroll 1
  for (int i = 0; i < kTokens * kHead / 8 / kBlockThreads; ++i) {
    auto& words =
        *reinterpret_cast<uint4*>(rows.at + (i * kBlockThreads + static_cast<int>(threadIdx.x)) * 8);
    const auto scaled = [&](std::uint32_t word) {
      const float2 x = unpack(word, dtype);
      return pack_f16(factor * x.x, factor * x.y);
    };
    words = {scaled(words.x), scaled(words.y), scaled(words.z), scaled(words.w)};
  }
}

__device__ inline void subtract(Slice& x, const Slice& y) {
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[n][i] -= y[n][i];
  }
}

/// Leaves U and dV in shared memory, and the partial sums of dbeta.
__device__ inline void value_gradients(const BackwardCall& back, GradientMemory& memory,
                                       const Scales& scales) {
  const int value = static_cast<int>(threadIdx.x) / 32 * 16;
  Slice d = {};
  multiply<kHead / 16>(
      d, [&](int s) { return left(memory.S, value, 16 * s); },
      [&](int k, int n) { return right(memory.K, k, n); });
#pragma unroll
  for (int s = 0; s < kTokenTiles / 2; ++s) {
    const uint4 words = left_of_transposed(memory.V, value, 16 * s);
    const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 v = unpack(word[i], back.call.v.dtype);
      float(&z)[4] = d[2 * s + i / 2];
      z[i % 2 * 2] = scales.values.down * v.x - z[i % 2 * 2];
      z[i % 2 * 2 + 1] = scales.values.down * v.y - z[i % 2 * 2 + 1];
    }
  }
  Packed U;
  {
    const Packed Z = packed(d);
    Slice u = {};
    multiply<kTokens / 16>(
        u, [&](int s) { return Z.left(s); },
        [&](int k, int n) { return right_of_transposed(memory.T2, k, n); });
    U = packed(u);
  }
  put(U, memory.U, value);
  {
    Slice x = {};
    multiply<kTokens / 16>(
        x, [&](int s) { return U.left(s); },
        [&](int k, int n) { return right_of_transposed(memory.N, k, n); });
    subtract(d, x);
  }
  Slice dY = {};
  multiply<kTokens / 16>(
      dY, [&](int s) { return left_of_transposed(memory.E, value, 16 * s); },
      [&](int k, int n) { return right(memory.M, k, n); });
  multiply<kHead / 16>(
      dY, [&](int s) { return left(memory.dS, value, 16 * s); },
      [&](int k, int n) { return right(memory.Kr, k, n); });
  Packed dV;
  {
    const Packed dU = packed(dY);
    Slice x = {};
    multiply<kTokens / 16>(
        x, [&](int s) { return dU.left(s); }, [&](int k, int n) { return right(memory.T2, k, n); });
    dV = packed(x);
  }
  put(dV, memory.dV, value);
  {
    Slice x = {};
    multiply<kTokens / 16>(
        x, [&](int s) { return dV.left(s); }, [&](int k, int n) { return right(memory.N, k, n); });
    subtract(dY, x);
  }
  float sums[kTokenTiles][2];
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) sums[n][i] = dY[n][i] * d[n][i] + dY[n][i + 2] * d[n][i + 2];
  }
  put_token_sums(memory, sums);
}

/// dM, lower triangular, and dN, strictly lower triangular.
__device__ inline void pair_gradients(GradientMemory& memory) {
  const int row = static_cast<int>(threadIdx.x) / 64 * 16,
            column = static_cast<int>(threadIdx.x) / 32 % 2 * 32;
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  Fragment dM[4] = {}, dN[4] = {};
  if (column < row + 16) {
#pragma unroll 2
    for (int k = 0; k < kHead; k += 16) {
      const uint4 e = left(memory.E, row, k), dV = left_of_transposed(memory.dV, row, k);
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        const uint4 u = right(memory.U, k, column + 8 * n);
        multiply(dM[n], dM[n + 1], e, u);
        multiply(dN[n], dN[n + 1], dV, u);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = row + g + 8 * r, j = column + 8 * n + 2 * p;
      memory.dM.pair(i, j) = pack_f16(i >= j ? dM[n][2 * r] : 0, i > j ? dM[n][2 * r + 1] : 0);
      memory.dN.pair(i, j) = pack_f16(i > j ? -dN[n][2 * r] : 0, i > j + 1 ? -dN[n][2 * r + 1] : 0);
    }
  }
}

/// Gradients of the warp's channels. `terms` is a_i - b_i of the formula above: a pair adds the product of
/// the same rounded operands to a_i and b_j, so that the two cancel.
struct KeyGradients {
  Slice dq, dk, terms;
};

/// dx += f y and terms += x y, for one tile; y is the gradient of the scaled operand x.
template <int sign>
__device__ void add_scaled(Fragment& dx, Fragment& terms, const std::uint32_t (&f)[2],
                           const std::uint32_t (&x)[2], const Fragment& y) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float2 own = unpack_f16(x[r]), decays = unpack_f16(f[r]);
    dx[2 * r] += decays.x * y[2 * r], dx[2 * r + 1] += decays.y * y[2 * r + 1];
    terms[2 * r] += sign * own.x * y[2 * r], terms[2 * r + 1] += sign * own.y * y[2 * r + 1];
  }
}

/// The pairs of tokens `base` .. base + half - 1 and the half behind them, half 16 or 32.
template <int half, int base>
__device__ void add_block(const GradientMemory& memory, const Packed& f, const Packed& q, const Packed& k,
                          KeyGradients& d) {
  constexpr int kTiles = half / 8, kFirst = base / 8, kLater = kFirst + kTiles;
  const auto looking_back = [&](const PairTile& pairs, const Packed& x, Slice& to) {
    Fragment y[kTiles] = {};
#pragma unroll
    for (int s = 0; s < half / 16; ++s) {
#pragma unroll
      for (int n = 0; n < kTiles; n += 2)
        multiply(y[n], y[n + 1], k.left(base / 16 + s),
                 right_of_transposed(pairs, base + 16 * s, base + half + 8 * n));
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
      add_scaled<1>(to[kLater + n], d.terms[kLater + n], f.at[kLater + n], x.at[kLater + n], y[n]);
  };
  looking_back(memory.dM, q, d.dq);
  looking_back(memory.dN, k, d.dk);
  Fragment y[kTiles] = {};
#pragma unroll
  for (int s = 0; s < half / 16; ++s) {
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      const int step = (base + half) / 16 + s, row = base + half + 16 * s;
      multiply(y[n], y[n + 1], q.left(step), right(memory.dM, row, base + 8 * n));
      multiply(y[n], y[n + 1], k.left(step), right(memory.dN, row, base + 8 * n));
    }
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    add_scaled<-1>(d.dk[kFirst + n], d.terms[kFirst + n], f.at[kFirst + n], k.at[kFirst + n], y[n]);
}

/// Four 8 x 8 blocks of pairs as right operands, from [base + row(m)][base + column(m)] for m = 0 .. 3, or
/// their transposes.
template <bool transposed, class Row, class Column>
__device__ uint4 blocks_of_8(const PairTile& pairs, int base, Row&& row, Column&& column) {
  const int m = threadIdx.x % 32 / 8;
  return load_matrices<!transposed>(pairs.address(base, base, row(m) + lane_row(), column(m)));
}

/// The pairs of levels 8, 4 and 2: one or two tiles of tokens, `step`.
template <int step>
__device__ void add_small_blocks(const GradientMemory& memory, int half, const Packed& f, const Packed& q,
                                 const Packed& k, KeyGradients& d) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
  // Of the right operands what belongs to this level: rows are contracted over p, columns are g.
  const auto own = [&](int later, int earlier) {
    return step == 2 || ((later & half) && !(earlier & half) && (later ^ earlier) < 2 * half);
  };
  const bool back_own = own(g, 2 * p), front_own = own(2 * p, g);
#pragma unroll
  for (int first = 0; first < kTokenTiles; first += 4 * step) {
    const auto row = [](int m) { return 8 * (m * step + step - 1); };
    const auto column = [](int m) { return 8 * m * step; };
    const uint4 dM = blocks_of_8<true>(memory.dM, 8 * first, row, column),
                dN = blocks_of_8<true>(memory.dN, 8 * first, row, column);
    const uint4 dMt = blocks_of_8<false>(memory.dM, 8 * first, row, column),
                dNt = blocks_of_8<false>(memory.dN, 8 * first, row, column);
    const std::uint32_t of_q[4] = {dM.x, dM.y, dM.z, dM.w}, of_k[4] = {dN.x, dN.y, dN.z, dN.w};
    const std::uint32_t by_q[4] = {dMt.x, dMt.y, dMt.z, dMt.w}, by_k[4] = {dNt.x, dNt.y, dNt.z, dNt.w};
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const int earlier = first + m * step, later = earlier + step - 1;
      Fragment x = {}, y = {}, z = {};
      mma_f16(x, k.at[earlier][0], k.at[earlier][1], back_own ? of_q[m] : 0);
      mma_f16(y, k.at[earlier][0], k.at[earlier][1], back_own ? of_k[m] : 0);
      mma_f16(z, q.at[later][0], q.at[later][1], front_own ? by_q[m] : 0);
      mma_f16(z, k.at[later][0], k.at[later][1], front_own ? by_k[m] : 0);
      add_scaled<1>(d.dq[later], d.terms[later], f.at[later], q.at[later], x);
      add_scaled<1>(d.dk[later], d.terms[later], f.at[later], k.at[later], y);
      add_scaled<-1>(d.dk[earlier], d.terms[earlier], f.at[earlier], k.at[earlier], z);
    }
  }
}

template <int half>
__device__ void add_level(const GradientMemory& memory, const Keys& keys, KeyGradients& d) {
  Packed f;
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    Fragment own;
    keys.decays_to_boundary<half>(n, own);
    f.at[n][0] = pack_f16(own[0], own[1]), f.at[n][1] = pack_f16(own[2], own[3]);
  }
  const Packed q = keys.q * f, k = keys.k * f;
  if constexpr (half == 32) {
    add_block<32, 0>(memory, f, q, k, d);
  } else if constexpr (half == 16) {
    add_block<16, 0>(memory, f, q, k, d);
    add_block<16, 32>(memory, f, q, k, d);
  } else {
    add_small_blocks<2>(memory, half, f, q, k, d);
  }
}

/// Levels 4 and 2, in a loop.
__device__ inline void add_small_levels(const GradientMemory& memory, const Keys& keys, KeyGradients& d) {
#pragma unroll 1
  for (int half = 4; half >= 2; half /= 2) {
    Packed f;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      Fragment own;
      keys.decays_within_tile(half, n, own);
      f.at[n][0] = pack_f16(own[0], own[1]), f.at[n][1] = pack_f16(own[2], own[3]);
    }
    const Packed q = keys.q * f, k = keys.k * f;
    add_small_blocks<1>(memory, half, f, q, k, d);
  }
}

/// Neighbouring tokens, and every token with itself.
__device__ inline void add_own_pairs(const GradientMemory& memory, const Keys& keys, KeyGradients& d) {
  const int p = threadIdx.x % 4;
  const auto number = [](const PairTile& pairs, int i, int j) {
    return unpack_f16(pairs.at[PairTile::index(i, j)]).x;
  };
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const int j = 8 * n + 2 * p, i = j + 1;
    const float dM = number(memory.dM, i, j), dN = number(memory.dN, i, j);
    const float of_j = number(memory.dM, j, j), of_i = number(memory.dM, i, i);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float2 q = unpack_f16(keys.q.at[n][r]), k = unpack_f16(keys.k.at[n][r]);
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

/// dq and dk before the norm. memory.whole is there after the next barrier.
__device__ inline void key_gradients(GradientMemory& memory, const Keys& keys, KeyGradients& d) {
  const auto product = [&](const StateTile& state, Slice& x, auto&& right) {
#pragma unroll 1
    for (int s = 0; s < kHead / 16; ++s) {
      const uint4 a = left_of_transposed(state, keys.channel, 16 * s);
#pragma unroll
      for (int n = 0; n < kTokenTiles; n += 2) multiply(x[n], x[n + 1], a, right(16 * s, 8 * n));
    }
  };
  {
    Slice x = {};
    product(memory.S, x, [&](int k, int n) { return right_of_transposed(memory.E, k, n); });
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float2 q = unpack_f16(keys.q.at[n][r]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int e = 2 * r + i;
          d.dq[n][e] = exp2_decay(keys.G[n][e]) * x[n][e];
          d.terms[n][e] = (i ? q.y : q.x) * d.dq[n][e];
        }
      }
    }
  }
  {
    Slice x = {};
    product(memory.S, x, [&](int k, int n) { return right(memory.dV, k, n); });
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float2 k = unpack_f16(keys.k.at[n][r]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int e = 2 * r + i;
          d.dk[n][e] = -exp2_decay(keys.G[n][e]) * x[n][e];
          d.terms[n][e] += (i ? k.y : k.x) * d.dk[n][e];
        }
      }
    }
  }
  {
    float whole[2] = {};
    Slice x = {};
#pragma unroll 1
    for (int s = 0; s < kHead / 16; ++s) {
      const uint4 S = left_of_transposed(memory.S, keys.channel, 16 * s),
                  dS = left_of_transposed(memory.dS, keys.channel, 16 * s);
#pragma unroll
      for (int n = 0; n < kTokenTiles; n += 2) multiply(x[n], x[n + 1], dS, right(memory.U, 16 * s, 8 * n));
      const auto product = [](std::uint32_t a, std::uint32_t b) {
        const float2 x = unpack_f16(a), y = unpack_f16(b);
        return x.x * y.x + x.y * y.y;
      };
      whole[0] += product(S.x, dS.x) + product(S.z, dS.z);
      whole[1] += product(S.y, dS.y) + product(S.w, dS.w);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      whole[r] *= exp2_decay(keys.last[r]);
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        const float2 k = unpack_f16(keys.k.at[n][r]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int e = 2 * r + i;
          const float dk = exp2_decay(keys.last[r] - keys.G[n][e]) * x[n][e], term = (i ? k.y : k.x) * dk;
          d.dk[n][e] += dk;
          d.terms[n][e] -= term;
          whole[r] += term;
        }
      }
      whole[r] = reduce<4>(whole[r]);
      if (threadIdx.x % 4 == 0)
        memory.whole[keys.channel + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * r] = whole[r];
    }
  }
  add_level<32>(memory, keys, d);
  add_level<16>(memory, keys, d);
  add_level<8>(memory, keys, d);
  add_small_levels(memory, keys, d);
  add_own_pairs(memory, keys, d);
}

__device__ inline void put(const Slice& x, FloatTile& tile, int channel) {
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) tile[(8 * n + 2 * p + i % 2) * kSliceRow + channel + g + i / 2 * 8] = x[n][i];
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

/// Of y = r x, r the inverse norm: dx = r (dy - y (y^T dy)). Four threads have a token. Heads that share keys
/// leave their part in the workspace.
__device__ inline void store_keys(const RecurrenceCall& call, const RowTile& inputs, DType dtype,
                                  const Rows& rows, int head, const TokenRange& range,
                                  const float (&norms)[kTokens], const FloatTile& tile, const Scales& scales,
                                  KeyTile& part) {
  const int t = threadIdx.x / 4, first = static_cast<int>(threadIdx.x) % 4 * 8;
  if (!rows.data) return;
  const float norm = norms[t];
  const float* const dy = tile + t * kSliceRow + first;
  const auto with_all = [&](auto&& body) {
#pragma unroll 1
    for (int c = 0; c < kHead; c += 32) {
      const uint4 words = *reinterpret_cast<const uint4*>(inputs.piece(t, first + c));
      const float4 lower = *reinterpret_cast<const float4*>(dy + c),
                   upper = *reinterpret_cast<const float4*>(dy + c + 4);
      const float own[8] = {lower.x, lower.y, lower.z, lower.w, upper.x, upper.y, upper.z, upper.w};
      const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
      float y[8];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 x = unpack(word[j], dtype);
        y[2 * j] = norm * x.x, y[2 * j + 1] = norm * x.y;
      }
      body(c, y, own);
    }
  };
  float along = 0;
  with_all([&](int, const float(&y)[8], const float(&own)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) along += y[i] * own[i];
  });
  along = reduce<4>(along);
  if (t >= range.count) return;
  const std::int64_t at =
      range.batch * rows.batch + (range.first + t) * rows.token + head / call.group * rows.head + first;
  const bool shared_keys = call.group > 1;
  const float up = shared_keys ? 1 : scales.gradients.up, and_up = shared_keys ? 1 : scales.values.up;
  with_all([&](int c, const float(&y)[8], const float(&own)[8]) {
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = norm * (own[i] - y[i] * along) * up * and_up;
    if (first + c >= call.K) return;
    if (shared_keys)
      store_8(part.at, DType::f16, RowTile::index(t, first + c), x);
    else
      store_8(rows.data, rows.dtype, at + c, x);
  });
}

__device__ inline void store_values(const Rows& rows, int head, int V, const TokenRange& range,
                                    const KeyTile& dV, float factor) {
  const int t = threadIdx.x / 4;
  if (!rows.data || t >= range.count) return;
#pragma unroll 1
  for (int v = static_cast<int>(threadIdx.x) % 4 * 8; v < V; v += 32) {
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = factor * unpack_f16(dV.at[KeyTile::index(v + i, t)]).x;
    store_8(rows.data, rows.dtype,
            range.batch * rows.batch + (range.first + t) * rows.token + head * rows.head + v, x);
  }
}

/// Four threads have a token, eight channels at a time.
__device__ inline void store_gates(const Rows& rows, int head, int K, const TokenRange& range,
                                   const FloatTile& tile) {
  const int t = threadIdx.x / 4;
  if (t >= range.count) return;
  const std::int64_t at = range.batch * rows.batch + (range.first + t) * rows.token + head * rows.head;
#pragma unroll 1
  for (int c = static_cast<int>(threadIdx.x) % 4 * 8; c < K; c += 32) {
    const float* const from = tile + t * kSliceRow + c;
    const float4 lower = *reinterpret_cast<const float4*>(from),
                 upper = *reinterpret_cast<const float4*>(from + 4);
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
/// chunk and head.
template <bool by_channel>
__device__ void gate_gradients(const BackwardCall& back, GradientMemory& memory, int head,
                               const TokenRange& range, const Scales& scales, float* parts) {
  const RecurrenceCall& call = back.call;
  const float rate = gate_rate(call, head);
  const auto at = [&](const Rows& rows, int t, int c) {
    return range.batch * rows.batch + (range.first + t) * rows.token + head * rows.head + c * rows.channel;
  };
  const auto scaled = [&](float x) { return x * scales.gradients.up * scales.values.up; };
  if constexpr (by_channel) {
    const ChannelHalf own;
    const RawGates gates(call, head, range, memory.raw_gates, own);
    float* const terms = memory.terms + own.first * kSliceRow + own.channel;
    float sum = 0;
#pragma unroll 8
    for (int t = kTokens / 2 - 1; t >= 0; --t) terms[t * kSliceRow] = sum += terms[t * kSliceRow];
    if (own.first != 0) memory.halves[own.channel] = sum;
    __syncthreads();
    const float others = memory.whole[own.channel] + (own.first == 0 ? memory.halves[own.channel] : 0);
    const float bias = gate_bias(call, head, own.channel);
    GateSums sums;
    if (call.gate == Gate::bounded) {  // the usual gate, in few instructions
      const float slope = call.lower_bound * rate;
#pragma unroll 4
      for (int t = 0; t < kTokens / 2; ++t) {
        const float in = gates[t] + bias,
                    x = scaled(terms[t * kSliceRow] + others) * slope * FastSigmoid(rate * in).slope();
        terms[t * kSliceRow] = x;
        sums.offset += t < gates.count ? x : 0;
        sums.rate += t < gates.count ? x * in : 0;
      }
    } else {
#pragma unroll 1
      for (int t = 0; t < gates.count; ++t) {
        float& term = terms[t * kSliceRow];
        term = go_through_gate(call, gates[t], scaled(term + others), rate, bias, sums);
      }
    }
    float* const of_first_half = memory.dq;  // written by now
    if (own.first == 0)
      of_first_half[own.channel] = sums.offset, of_first_half[kHead + own.channel] = sums.rate;
    __syncthreads();
    if (own.first != 0) {
      parts[own.channel] = of_first_half[own.channel] + sums.offset;
      parts[kHead + own.channel] = of_first_half[kHead + own.channel] + sums.rate;
    }
    if (back.dg.data) store_gates(back.dg, head, call.K, range, memory.terms);
    return;
  }
  // One number a token: the sum over channels.
  const int token = threadIdx.x / 4;
  float sum = 0;
#pragma unroll 8
  for (int c = threadIdx.x % 4; c < kHead; c += 4) sum += memory.terms[token * kSliceRow + c];
  sum = reduce<4>(sum);
  if (threadIdx.x % 4 == 0) memory.halves[token] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  float whole = 0;
  for (int c = threadIdx.x; c < kHead; c += 32) whole += memory.whole[c];
  whole = reduce(whole);
  GateSums sums;
  for (int t = threadIdx.x; t < range.count; t += 32) {
    float dg = 0;
    for (int i = range.count - 1; i >= t; --i) dg += memory.halves[i];
    const float x = go_through_gate(call, load(call.g.data, call.g.dtype, at(call.g, t, 0)),
                                    scaled(whole + dg), rate, gate_bias(call, head, 0), sums);
    if (back.dg.data) store(back.dg.data, back.dg.dtype, at(back.dg, t, 0), x);
  }
  sums.offset = reduce(sums.offset), sums.rate = reduce(sums.rate);
  if (threadIdx.x == 0) parts[0] = sums.offset, parts[kHead] = sums.rate;
}

template <bool by_channel>
__global__ void __launch_bounds__(kBlockThreads, 1)
    gradients(const __grid_constant__ BackwardCall back, const __grid_constant__ BackwardMemory workspace) {
  extern __shared__ __align__(1024) char shared[];
  auto& memory = *reinterpret_cast<GradientMemory*>(shared);
  const RecurrenceCall& call = back.call;
  const ChunkOfBlock<kTokens> chunk(call, call.HV);
  ChunkMemory& own = workspace.chunks[blockIdx.x];
  float* const parts = own.factors[0];
  if (chunk.count == 0) {
    for (int i = threadIdx.x; i < 2 * kHead; i += kBlockThreads) parts[i] = 0;
    return;
  }
  const int head = chunk.head;
  const TokenRange range = chunk.range();
  const Scales scales(call, workspace, chunk.n, head);
  const Keys keys(std::bool_constant<by_channel>{}, call, head, range, memory.keys, memory.raw_gates,
                  memory.gates, memory.norms, [&] {
                    copy_tile<kBlockThreads>(own.S, memory.S, call.V);
                    copy_tile<kBlockThreads>(own.dS, memory.dS, call.V);
                    copy_tile<kBlockThreads>(own.M, memory.M);
                    copy_tile<kBlockThreads>(own.N, memory.N);
                    copy_tile<kBlockThreads>(own.T2, memory.T2);
                    copy_input<kBlockThreads>(call.v, head, 0, call.V, range, memory.V);
                    copy_input<kBlockThreads>(back.do_, head, 0, call.V, range, memory.E);
                  });
  __syncthreads();  // the gates' memory becomes that of K and Kr
  put(keys.k * keys.decays_from_front<false>(), memory.K, keys.channel);
  put(keys.k * keys.decays_to_back(), memory.Kr, keys.channel);
  __pipeline_wait_prior(0);
  if (call.V < kHead) {  // carry has not written these
    clear_rows<kBlockThreads>(memory.S, call.V);
    clear_rows<kBlockThreads>(memory.dS, call.V);
  }
  __syncthreads();
  scale_rows(memory.E, back.do_.dtype, scales.gradients.down * call.scale);
  __syncthreads();
  value_gradients(back, memory, scales);
  __syncthreads();
  const auto at = [&](const Rows& rows, int t) {
    return range.batch * rows.batch + (range.first + t) * rows.token + head * rows.head;
  };
  if (const int t = threadIdx.x; t < range.count && back.dbeta.data) {
    float x = token_sum(memory, t) * scales.gradients.up * scales.values.up;
    if (call.beta_sigmoid)
      x *= (call.neg_eigval ? 2.0f : 1.0f) *
           sigmoid_slope(load(call.beta.data, call.beta.dtype, at(call.beta, t)));
    store(back.dbeta.data, back.dbeta.dtype, at(back.dbeta, t), x);
  }
  pair_gradients(memory);
  __syncthreads();

  KeyGradients d;
  key_gradients(memory, keys, d);
  __syncthreads();
  copy_input<kBlockThreads>(call.q, head / call.group, 0, call.K, range, memory.q_again);
  copy_input<kBlockThreads>(call.k, head / call.group, 0, call.K, range, memory.k_again);
  __pipeline_commit();
  put(d.dq, memory.dq, keys.channel);
  put(d.dk, memory.dk, keys.channel);
  put(d.terms, memory.terms, keys.channel);
  store_values(back.dv, head, call.V, range, memory.dV, scales.gradients.up);
  __pipeline_wait_prior(0);
  __syncthreads();
#pragma unroll 1
  for (int which = 0; which < 2; ++which)
    store_keys(call, which ? memory.k_again : memory.q_again, call.q.dtype, which ? back.dk : back.dq, head,
               range, memory.norms[which], which ? memory.dk : memory.dq, scales, which ? own.Qh : own.Kt);
  __syncthreads();
  gate_gradients<by_channel>(back, memory, head, range, scales, parts);
}

}  // namespace fla::cuda_backward
