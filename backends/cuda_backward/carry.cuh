#pragma once

#include "backends/cuda_backward/wgmma.cuh"
#include "backends/cuda_backward/workspace.cuh"

/// Carries 64 values of a head's state forward through the chunks of a sequence, or its gradient back. The
/// state at the start of each chunk, or its gradient at the end, goes to the workspace. Both are
///
///                                     forward        back
///     Y = R - A S                     R = V, A = K~  R = 0, A = K^
///     S <- diag(gamma) S + B^T Y      B = K^         B = K~, and + Q^^T E
///
/// Half of the warps carry: each has 16 values, whose columns of S are rows here. S^T stays in registers, in
/// f32, and its f16 form is a left operand as it is, and so is Y^T.
///
///     1       S^T in f16: a left operand, and in shared memory on its way to the workspace
///     2       Y^T [16 x 64 tokens]
///     3       S^T [16 x 128 channels]
///
/// The others copy: the operators of two chunks to come, and the state of the chunk that is worked on. Where
/// gates have a number a token, k is there instead of K~, tokens' decays multiply Y, and forward Y, which is
/// Z then, goes to the workspace too.
namespace fla::cuda_backward {

enum class Direction { forward, back };

inline constexpr int kCarryThreads = 256, kCarryValues = 64, kCarryStages = 3;

struct Empty {};

template <Direction direction, bool by_channel>
struct CarryMemory {
  static constexpr bool kBack = direction == Direction::back;
  using Keys = std::conditional_t<by_channel, KeyTile, SplitRows>;
  struct alignas(1024) Stage {
    std::conditional_t<kBack, KeyTile, Keys> A;
    std::conditional_t<kBack, Keys, KeyTile> B;
    std::conditional_t<kBack, KeyTile, Empty> Q;
    Tile<kTokens, kCarryValues> rows;  ///< V or dO, as they come
    float factors[2][kHead];           ///< ChunkMemory's
  } stages[kCarryStages];
  SplitTile<kCarryValues> S[2];  ///< for the workspace
  Arrival arrivals[kCarryStages];
};

/// A or B of a stage.
template <bool first, class A, class B>
__device__ auto& part(A& a, B& b) {
  if constexpr (first)
    return a;
  else
    return b;
}

/// What a chunk adds to the warp's values: all channels at once, or half of them after the other, as keys lie
/// in shared memory. Products that add to each other have to be of one size.
template <bool at_once>
struct Changes {
  static constexpr int kParts = at_once ? 1 : 2, kTiles = kHead / 8 / kParts;
  Fragment parts[kParts][kTiles];

  /// right(t, c): from token t and channel c on.
  template <bool to_others, class Right>
  __device__ void add(const uint4 (&left)[kTokens / 16], Right&& right) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      add_product<to_others>(parts[part], left[0], right(0, part * kTiles * 8));
#pragma unroll
      for (int t = 16; t < kTokens; t += 16)
        add_product(parts[part], left[t / 16], right(t, part * kTiles * 8));
    }
  }
  __device__ void keep() {
#pragma unroll
    for (auto& part : parts) cuda::keep(part);
  }
  __device__ const Fragment& at(int tile) const { return parts[tile / kTiles][tile % kTiles]; }
};

/// The sequence with this rank by length: the longest ones begin first, so that none is left alone at the
/// end. All threads of a block call this.
__device__ inline std::int64_t longest_first(const RecurrenceCall& call, std::int64_t rank) {
  if (call.N == 1 || call.N > kCarryThreads || !call.cu_seqlens.data) return rank;
  __shared__ std::int64_t lengths[kCarryThreads];
  __shared__ int chosen;
  const int own = threadIdx.x;
  if (own < call.N) {
    const Sequence sequence = sequence_of(call, own);
    lengths[own] = sequence.end - sequence.begin;
  }
  __syncthreads();
  if (own < call.N) {
    int before = 0;
    for (int n = 0; n < call.N; ++n)
      before += lengths[n] > lengths[own] || (lengths[n] == lengths[own] && n < own) ? 1 : 0;
    if (before == rank) chosen = own;
  }
  __syncthreads();
  return chosen;
}

template <Direction direction, bool by_channel>
__device__ void carry_block(const BackwardCall& back, const BackwardMemory& workspace, unsigned block,
                            CarryMemory<direction, by_channel>& memory) {
  constexpr bool kBack = direction == Direction::back;
  constexpr int kTiles = kHead / 8;
  const RecurrenceCall& call = back.call;
  const int blocks = call.V / kCarryValues;
  const int block_value = static_cast<int>(block) % blocks * kCarryValues;
  const int head = static_cast<int>(block / blocks % call.HV);
  const std::int64_t n = longest_first(call, block / blocks / call.HV);
  const Sequence sequence = sequence_of(call, n);
  const int count = static_cast<int>((sequence.end - sequence.begin + kTokens - 1) / kTokens);
  const std::int64_t first_place = chunk_place<kTokens>(call, sequence, n, 0);
  const Scales scales(call, workspace, n, head);
  const Scale scale = kBack ? scales.gradients : scales.values;
  constexpr int kHalf = kCarryThreads / 2;  // of the block
  const bool carries = threadIdx.x < kHalf;
  const int thread = static_cast<int>(threadIdx.x) % kHalf;
  const int g = threadIdx.x % 32 / 4, p = threadIdx.x % 4, row = thread / 32 * 16;

  Slice<kTiles> s = {};
  const auto key = [&](int i) { return i / 4 * 8 + 2 * p + i % 2; };
  const auto value = [&](int i) { return block_value + row + g + i % 4 / 2 * 8; };
  const auto in_state = [&](int i) { return key(i) < call.K; };
  if (carries) {
    float elements[4 * kTiles];
    load_state(kBack ? back.dht : call.initial_state, n, head, key, value, in_state, elements);
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) s[i / 4][i % 4] = scale.down * elements[i];
  }

  const auto chunk_of = [&](int i) { return kBack ? count - 1 - i : i; };
  const auto memory_of = [&](int i) -> ChunkMemory& {
    return workspace.chunks[(first_place + chunk_of(i)) * call.HV + head];
  };
  const auto keys_of = [&](int i) -> const SplitRows& {
    return workspace.keys[(first_place + chunk_of(i)) * (call.HV / call.group) + head / call.group].k;
  };
  const Rows& rows = kBack ? back.do_ : call.v;
  const auto copy = [&](int i) {
    if (i < count) {
      auto& stage = memory.stages[i % kCarryStages];
      const ChunkMemory& from = memory_of(i);
      auto& Kh = part<kBack>(stage.A, stage.B);
      auto& keys = part<!kBack>(stage.A, stage.B);
      if (thread == 0) {
        Arrival& arrival = memory.arrivals[i % kCarryStages];
        arrival.expect((kBack ? 3 : 2) * sizeof(KeyTile) + sizeof(stage.factors));
        copy_bulk(from.Kh, Kh, arrival);
        if constexpr (by_channel)
          copy_bulk(from.Kt, keys, arrival);
        else
          copy_bulk(keys_of(i), keys, arrival);
        if constexpr (kBack) copy_bulk(from.Qh, stage.Q, arrival);
        copy_bulk(from.factors, stage.factors, arrival);
      }
      const std::int64_t t0 = sequence.begin + std::int64_t{chunk_of(i)} * kTokens;
      copy_input<kHalf, kCarryValues>(
          rows, head, block_value, kCarryValues,
          {sequence.batch, t0, static_cast<int>(min(sequence.end - t0, std::int64_t{kTokens}))}, stage.rows,
          thread);
    }
    __pipeline_commit();
  };
  const float factor = kBack ? scale.down * call.scale : scale.down;

  if (!carries) {
    if (thread == 0) {
#pragma unroll
      for (Arrival& arrival : memory.arrivals) arrival.begin();
    }
    copy(0), copy(1);
  }
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const auto& stage = memory.stages[i % kCarryStages];
    const auto pair_of = [&](int which, int tile) {
      return *reinterpret_cast<const float2*>(stage.factors[which] + 8 * tile + 2 * p);
    };
    auto& own_S = memory.S[i % 2];
    Packed<kTiles> kept;
    if (carries) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          kept.at[tile][r] = pack_finite_f16(s[tile][2 * r], s[tile][2 * r + 1]);
          word_of(own_S.halves[tile / 8], row, 0, tile % 8, r) = kept.at[tile][r];
        }
      }
    } else {
      __pipeline_wait_prior(1);
      if (thread == 0) memory.arrivals[i % kCarryStages].wait(i / kCarryStages);
    }
    __syncthreads();
    if (!carries) {
      copy(i + 2);  // to where the chunk before was
      ChunkMemory& own = memory_of(i);
      StateTile& to = kBack ? own.dS : own.S;
      constexpr int kNumbers = kCarryValues * StateTile::kRow;  // of half of the channels
#pragma unroll
      for (int at = 0; at < 2 * kNumbers; at += kHalf * 8) {
        const int from = at % kNumbers + thread * 8;
        *reinterpret_cast<uint4*>(to.halves[at / kNumbers].at + block_value * StateTile::kRow + from) =
            *reinterpret_cast<const uint4*>(own_S.halves[at / kNumbers].at + from);
      }
      continue;
    }
    uint4 a[kHead / 16];
#pragma unroll
    for (int tile = 0; tile < kTiles; tile += 2) {
      if constexpr (!kBack && by_channel) {
#pragma unroll
        for (int m = tile; m < tile + 2; ++m) {
          const float2 first = pair_of(1, m);
#pragma unroll
          for (int r = 0; r < 2; ++r)
            kept.at[m][r] = pack_finite_f16(first.x * s[m][2 * r], first.y * s[m][2 * r + 1]);
        }
      }
      a[tile / 2] = kept.left(tile / 2);
    }
    Slice<kTokens / 8> y;
    Changes<by_channel> change;
    const auto A = [&](int k) {
      if constexpr (kBack || by_channel)
        return operand<true>(stage.A).from(k);
      else
        return operand<false>(stage.A.halves[k / 64]).from(k % 64);
    };
    begin_products();
    add_product<false>(y, a[0], A(0));
#pragma unroll
    for (int k = 16; k < kHead; k += 16) add_product(y, a[k / 16], A(k));
    end_products();
    uint4 given[kTokens / 16];
#pragma unroll
    for (int t = 0; t < kTokens / 16; ++t) given[t] = left_of_transposed(stage.rows, row, 16 * t);
    if constexpr (kBack) {  // what does not need Y, meanwhile
#pragma unroll
      for (int t = 0; t < kTokens / 16; ++t) {
        const auto scaled = [&](std::uint32_t word) {
          const float2 x = unpack(word, rows.dtype);
          return pack_f16(factor * x.x, factor * x.y);
        };
        given[t] = {scaled(given[t].x), scaled(given[t].y), scaled(given[t].z), scaled(given[t].w)};
      }
      keep(given);
      begin_products();
      change.template add<false>(given, [&](int t, int c) { return operand<false>(stage.Q).from(t, c); });
      end_products();
    }
    wait_for_products<kBack ? 1 : 0>();
    keep(y), keep(a);
    uint4 Y[kTokens / 16];
    const float before_all = kBack || by_channel ? 1 : pair_of(1, kTokens / 8).x;
#pragma unroll
    for (int t = 0; t < kTokens / 16; ++t) {
      const std::uint32_t words[4] = {given[t].x, given[t].y, given[t].z, given[t].w};
      std::uint32_t of_Y[4];
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const float(&own)[4] = y[2 * t + m / 2];
        const float2 pair = kBack ? float2{0, 0} : unpack(words[m], rows.dtype),
                     decays = by_channel ? float2{1, 1} : pair_of(1, 2 * t + m / 2);
        of_Y[m] = pack_finite_f16(factor * pair.x - before_all * decays.x * own[m % 2 * 2],
                                  factor * pair.y - before_all * decays.y * own[m % 2 * 2 + 1]);
      }
      Y[t] = {of_Y[0], of_Y[1], of_Y[2], of_Y[3]};
    }
    keep(Y);
    begin_products();
    change.template add<kBack>(Y, [&](int t, int c) {
      if constexpr (kBack && !by_channel)
        return operand<true>(stage.B.halves[c / 64]).from(t);
      else
        return operand<false>(stage.B).from(t, c);
    });
    end_products();
    if constexpr (!kBack && !by_channel) {
#pragma unroll
      for (int t = 0; t < kTokens / 16; ++t)
        memory_of(i).Z[(block_value + row) / 16][t][threadIdx.x % 32] = Y[t];
    }
    wait_for_products<0>();
    change.keep(), keep(Y);
    if constexpr (kBack) keep(given);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const float2 gamma = pair_of(0, tile), first = !kBack       ? float2{1, 1}
                                                     : by_channel ? pair_of(1, tile)
                                                                  : pair_of(1, kTokens / 8);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        s[tile][e] =
            (e % 2 ? gamma.y : gamma.x) * s[tile][e] + (e % 2 ? first.y : first.x) * change.at(tile)[e];
    }
  }
  if (kBack && carries) {
    float elements[4 * kTiles];
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) elements[i] = scale.up * s[i / 4][i % 4];
    store_state(back.dinitial_state, n, head, key, value, in_state, elements);
  }
}

/// The first half of the blocks goes backward: that direction takes longer, so it starts first.
template <bool by_channel>
__global__ void __launch_bounds__(kCarryThreads, 1)
    carry(const __grid_constant__ BackwardCall back, const __grid_constant__ BackwardMemory workspace) {
  extern __shared__ __align__(1024) char shared[];
  const unsigned half = gridDim.x / 2;
  if (blockIdx.x < half)
    carry_block(back, workspace, blockIdx.x,
                *reinterpret_cast<CarryMemory<Direction::back, by_channel>*>(shared));
  else
    carry_block(back, workspace, blockIdx.x - half,
                *reinterpret_cast<CarryMemory<Direction::forward, by_channel>*>(shared));
}

}  // namespace fla::cuda_backward
