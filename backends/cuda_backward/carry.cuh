#pragma once

#include "backends/cuda_backward/workspace.cuh"

/// Carries 32 values of a head's state forward through the chunks of a sequence, or its gradient back. The
/// state at the start of each chunk, or its gradient at the end, goes to the workspace. Both are
///
///                                     forward        back
///     Y = R - A S                     R = V, A = K~  R = 0, A = K^
///     S <- diag(gamma) S + B^T Y      B = K^         B = K~, and + Q^^T E
///
///     warp    S^T [32 values x 32 channels] in registers, in f32: two slabs of 16 values
///     1       all warps put S^T into shared memory, in f16; it goes to the workspace from there
///     2       Y of the warp's 16 tokens, contracted over all channels
///     3       the warp's channels of S, contracted over all tokens
///
/// A chunk's operators are copied while the one before is worked on.
namespace fla::cuda_backward {

enum class Direction { forward, back };

inline constexpr int kCarrySlabs = 2, kCarryParts = 4, kCarryValues = 16 * kCarrySlabs;
inline constexpr int kCarryThreads = 32 * kCarryParts;

struct Empty {};

template <Direction direction>
struct CarryMemory {
  static constexpr bool kBack = direction == Direction::back;
  struct Stage {
    KeyTile A, B;
    std::conditional_t<kBack, KeyTile, Empty> Q;
    Tile<kTokens, kCarryValues> rows;  ///< V or dO, as they come
  } stages[2];
  Tile<kCarryValues, kHead> S;  ///< for the workspace
  /// The left operand of A S, where it is not S itself.
  std::conditional_t<kBack, Empty, Tile<kCarryValues, kHead>> left;
  Tile<kCarryValues, kTokens> Y;
};
/// Of a block that carries both.
struct BothCarryMemory {
  CarryMemory<Direction::forward> forward;
  CarryMemory<Direction::back> back;
};

/// kCarryThreads threads call this; the block's others may carry the other direction meanwhile.
template <Direction direction>
__device__ void carry_block(const BackwardCall& back, const BackwardMemory& workspace, unsigned block,
                            CarryMemory<direction>& memory) {
  constexpr bool kBack = direction == Direction::back;
  constexpr int kChannels = kHead / kCarryParts, kTiles = kChannels / 8, kOwnTokens = kTokens / kCarryParts;

  const RecurrenceCall& call = back.call;
  const int thread = static_cast<int>(threadIdx.x) % kCarryThreads;
  const int blocks = call.V / kCarryValues;
  const int block_value = static_cast<int>(block) % blocks * kCarryValues;
  const int head = static_cast<int>(block / blocks % call.HV);
  const std::int64_t n = block / blocks / call.HV;
  const Sequence sequence = sequence_of(call, n);
  const int count = static_cast<int>((sequence.end - sequence.begin + kTokens - 1) / kTokens);
  const std::int64_t first_place = chunk_place<kTokens>(call, sequence, n, 0);
  const Scales scales(call, workspace, n, head);
  const Scale scale = kBack ? scales.gradients : scales.values;
  const int lane = threadIdx.x % 32, g = lane / 4, p = lane % 4;
  const int part = thread / 32, channel = kChannels * part;

  Slice<kTiles> s[kCarrySlabs];
  constexpr int kElements = 4 * kTiles;  // of a slab
  const auto key = [&](int i) { return channel + i % kElements / 4 * 8 + 2 * p + i % 2; };
  const auto value = [&](int i) { return block_value + i / kElements * 16 + g + i % 4 / 2 * 8; };
  const auto in_state = [&](int i) { return key(i) < call.K; };
  {
    float elements[kCarrySlabs * kElements];
    load_state(kBack ? back.dht : call.initial_state, n, head, key, value, in_state, elements);
#pragma unroll
    for (int i = 0; i < kCarrySlabs * kElements; ++i)
      s[i / kElements][i % kElements / 4][i % 4] = scale.down * elements[i];
  }

  const auto wait_for_all = [] { wait_for_part(1 + static_cast<int>(direction), kCarryThreads); };
  const auto chunk_of = [&](int i) { return kBack ? count - 1 - i : i; };
  const auto memory_of = [&](int i) -> ChunkMemory& {
    return workspace.chunks[(first_place + chunk_of(i)) * call.HV + head];
  };
  const Rows& rows = kBack ? back.do_ : call.v;
  const auto copy = [&](int i) {
    if (i < count) {
      auto& stage = memory.stages[i % 2];
      const ChunkMemory& from = memory_of(i);
      copy_tile<kCarryThreads>(kBack ? from.Kh : from.Kt, stage.A, kHead, thread);
      copy_tile<kCarryThreads>(kBack ? from.Kt : from.Kh, stage.B, kHead, thread);
      if constexpr (kBack) copy_tile<kCarryThreads>(from.Qh, stage.Q, kHead, thread);
      const std::int64_t t0 = sequence.begin + std::int64_t{chunk_of(i)} * kTokens;
      copy_input<kCarryThreads, kCarryValues>(
          rows, head, block_value, kCarryValues,
          {sequence.batch, t0, static_cast<int>(min(sequence.end - t0, std::int64_t{kTokens}))}, stage.rows,
          thread);
    }
    __pipeline_commit();
  };
  // Of the warp's channels: gamma, and what K~ and Q^ have to be multiplied by.
  struct Factors {
    float2 gamma[kTiles], first[kTiles];
  };
  const auto fetch = [&](int i, Factors& factors) {
    if (i >= count) return;
    const float* const from = memory_of(i).factors[0] + channel + 2 * p;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      factors.gamma[n] = *reinterpret_cast<const float2*>(from + 8 * n);
      factors.first[n] = *reinterpret_cast<const float2*>(from + kHead + 8 * n);
    }
  };

  copy(0);
  Factors factors{};
  fetch(0, factors);
  const float factor = kBack ? scale.down * call.scale : scale.down;
  const auto hold = [&](Tile<kCarryValues, kHead>& tile, auto&& factor_of) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float2 times = factor_of(n);
#pragma unroll
      for (int row = 0; row < kCarryValues; row += 8) {
        constexpr float kMost = 65504;  // what is larger is not right any more, but finite
        const auto held = [](float x) { return fminf(fmaxf(x, -kMost), kMost); };
        const float(&own)[4] = s[row / 16][n];
        tile.pair(row + g, channel + 8 * n + 2 * p) =
            pack_f16(held(times.x * own[row % 16 / 4]), held(times.y * own[row % 16 / 4 + 1]));
      }
    }
  };
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const auto& stage = memory.stages[i % 2];
    hold(memory.S, [](int) { return float2{1, 1}; });
    const Tile<kCarryValues, kHead>* of_Y = &memory.S;
    if constexpr (!kBack) {
      hold(memory.left, [&](int n) { return factors.first[n]; });
      of_Y = &memory.left;
    }
    __pipeline_wait_prior(0);
    wait_for_all();
    Slice<2> y[kCarrySlabs] = {};
#pragma unroll
    for (int k = 0; k < kHead; k += 16) {
      const uint4 b = right(stage.A, k, kOwnTokens * part);
#pragma unroll
      for (int slab = 0; slab < kCarrySlabs; ++slab)
        multiply(y[slab][0], y[slab][1], left(*of_Y, 16 * slab, k), b);
    }
    copy(i + 1);  // to where the chunk before was
    Factors next{};
    fetch(i + 1, next);
    {
      ChunkMemory& own = memory_of(i);
      std::uint16_t* const kept = (kBack ? own.dS : own.S).at + block_value * kHead;
#pragma unroll
      for (int at = thread * 8; at < kCarryValues * kHead; at += kCarryThreads * 8)
        *reinterpret_cast<uint4*>(kept + at) = *reinterpret_cast<const uint4*>(memory.S.at + at);
    }
#pragma unroll
    for (int slab = 0; slab < kCarrySlabs; ++slab) {
      const uint4 given = kBack ? uint4{} : left_of_transposed(stage.rows, 16 * slab, kOwnTokens * part);
      const std::uint32_t words[2][2] = {{given.x, given.y}, {given.z, given.w}};
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float2 v = kBack ? float2{} : unpack(words[n][r], rows.dtype);
          memory.Y.pair(16 * slab + g + 8 * r, kOwnTokens * part + 8 * n + 2 * p) =
              pack_f16(factor * v.x - y[slab][n][2 * r], factor * v.y - y[slab][n][2 * r + 1]);
        }
      }
    }
    Slice<kTiles> change[kCarrySlabs] = {};
    const auto add = [&](auto&& from, const KeyTile& B) {
#pragma unroll
      for (int k = 0; k < kTokens; k += 16) {
        uint4 a[kCarrySlabs];
#pragma unroll
        for (int slab = 0; slab < kCarrySlabs; ++slab) a[slab] = from(slab, k);
#pragma unroll
        for (int n = 0; n < kTiles; n += 2) {
          const uint4 b = right_of_transposed(B, k, channel + 8 * n);
#pragma unroll
          for (int slab = 0; slab < kCarrySlabs; ++slab)
            multiply(change[slab][n], change[slab][n + 1], a[slab], b);
        }
      }
    };
    if constexpr (kBack) {
      add(
          [&](int slab, int k) {
            const uint4 x = left_of_transposed(stage.rows, 16 * slab, k);
            const auto scaled = [&](std::uint32_t word) {
              const float2 pair = unpack(word, rows.dtype);
              return pack_f16(factor * pair.x, factor * pair.y);
            };
            return uint4{scaled(x.x), scaled(x.y), scaled(x.z), scaled(x.w)};
          },
          stage.Q);
    }
    wait_for_all();
    add([&](int slab, int k) { return left(memory.Y, 16 * slab, k); }, stage.B);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float2 gamma = factors.gamma[n], first = kBack ? factors.first[n] : float2{1, 1};
#pragma unroll
      for (int slab = 0; slab < kCarrySlabs; ++slab) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s[slab][n][e] =
              (e % 2 ? gamma.y : gamma.x) * s[slab][n][e] + (e % 2 ? first.y : first.x) * change[slab][n][e];
      }
    }
    factors = next;
  }
  if constexpr (kBack) {
    float elements[kCarrySlabs * kElements];
#pragma unroll
    for (int i = 0; i < kCarrySlabs * kElements; ++i)
      elements[i] = scale.up * s[i / kElements][i % kElements / 4][i % 4];
    store_state(back.dinitial_state, n, head, key, value, in_state, elements);
  }
}

/// A block has 32 values of a head in both directions, neither of which needs the other.
__global__ void __launch_bounds__(2 * kCarryThreads)
    carry_both(const __grid_constant__ BackwardCall back, const __grid_constant__ BackwardMemory workspace) {
  extern __shared__ __align__(1024) char shared[];
  auto& memory = *reinterpret_cast<BothCarryMemory*>(shared);
  if (threadIdx.x < kCarryThreads)
    carry_block<Direction::back>(back, workspace, blockIdx.x, memory.back);
  else
    carry_block<Direction::forward>(back, workspace, blockIdx.x, memory.forward);
}

/// Where there are few heads, a block has one direction: the first half of them goes back.
__global__ void __launch_bounds__(kCarryThreads)
    carry_either(const __grid_constant__ BackwardCall back,
                 const __grid_constant__ BackwardMemory workspace) {
  extern __shared__ __align__(1024) char shared[];
  if (const unsigned half = gridDim.x / 2; blockIdx.x < half)
    carry_block(back, workspace, blockIdx.x, *reinterpret_cast<CarryMemory<Direction::back>*>(shared));
  else
    carry_block(back, workspace, blockIdx.x - half,
                *reinterpret_cast<CarryMemory<Direction::forward>*>(shared));
}

}  // namespace fla::cuda_backward
