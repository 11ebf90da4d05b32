#pragma once

#include "backends/cuda_backward/carry_task.cuh"
#include "backends/cuda_backward/wgmma.cuh"

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
/// The others copy: the operators of two chunks to come, and the state of the chunk that is worked on. They
/// have a loop of their own, in which no registers are kept for the state. Where
/// gates have a number a token, k is there instead of K~, tokens' decays multiply Y, and forward Y, which is
/// Z then, goes to the workspace too.
namespace fla::cuda_backward {

inline constexpr int kCarryStages = 3;

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
  };
  union {
    Stage stages[kCarryStages];
    struct {
      Stage others[kCarryStages - 1];
      StateTile P;  ///< of a segment, before the last stage is in use
    };
  };
  SplitTile<kCarryValues> S[2];  ///< for the workspace
  Arrival arrivals[kCarryStages], of_P;
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

/// S <- P S, or P^T S back, of the warp's 16 values: S in f16 and what that leaves of it.
template <Direction direction>
__device__ void go_through(const StateTile& P, Slice<kHead / 8>& s) {
  constexpr int kSteps = kHead / 16;
  uint4 parts[2 * kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    Packed<2> high, low;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float* const x = s[2 * step + m] + 2 * r;
        high.at[m][r] = pack_finite_f16(x[0], x[1]);
        const float2 rounded = unpack_f16(high.at[m][r]);
        low.at[m][r] = pack_finite_f16(x[0] - rounded.x, x[1] - rounded.y);
      }
    }
    parts[step] = high.left(0), parts[kSteps + step] = low.left(0);
  }
  Fragment sums[2][kHead / 16];
  const auto right = [&](int k, int half) {
    if constexpr (direction == Direction::back)
      return operand<false>(P.halves[k / 64]).from(k % 64, 64 * half);
    else
      return operand<true>(P.halves[half]).from(k);
  };
  keep(parts);
#pragma unroll
  for (auto& sum : sums) keep(sum);
  begin_products();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    add_product<false>(sums[half], parts[0], right(0, half));
#pragma unroll
    for (int i = 1; i < 2 * kSteps; ++i) add_product(sums[half], parts[i], right(i % kSteps * 16, half));
  }
  end_products();
  wait_for_products<0>();
  keep(parts);
#pragma unroll
  for (auto& sum : sums) keep(sum);
#pragma unroll
  for (int tile = 0; tile < kHead / 8; ++tile) {
#pragma unroll
    for (int e = 0; e < 4; ++e) s[tile][e] = sums[tile / 8][tile % 8][e];
  }
}

/// A warp's values of a state: elements of its thread.
struct CarryElements {
  int first_value, channels;

  __device__ explicit CarryElements(const RecurrenceCall& call, int block_value)
      : first_value(block_value + static_cast<int>(threadIdx.x) / 32 * 16 +
                    static_cast<int>(threadIdx.x) % 32 / 4),
        channels(call.K) {}
  __device__ int key(int i) const { return i / 4 * 8 + 2 * (static_cast<int>(threadIdx.x) % 4) + i % 2; }
  __device__ int value(int i) const { return first_value + i % 4 / 2 * 8; }
  __device__ bool in_state(int i) const { return key(i) < channels; }
};

/// Where the block's last state goes.
template <Direction direction>
__device__ void keep_end(const BackwardCall& back, const CarryPath<direction>& path, float up,
                         const Slice<kHead / 8>& s) {
  const auto& [begin, n, head, block_value, turn] = path.task;
  if (begin == Begin::identity) {
    StateTile& P = path.segment(turn).P;
    const int row = block_value + static_cast<int>(threadIdx.x) / 32 * 16;
#pragma unroll
    for (int tile = 0; tile < kHead / 8; ++tile) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
        word_of(P.halves[tile / 8], row, 0, tile % 8, r) =
            pack_finite_f16(s[tile][2 * r], s[tile][2 * r + 1]);
    }
  } else if (!path.is_last()) {
    if (begin == Begin::composed) return;
    auto& ends = path.ends(turn);
#pragma unroll
    for (int tile = 0; tile < kHead / 8; ++tile)
      ends[tile][threadIdx.x] = {s[tile][0], s[tile][1], s[tile][2], s[tile][3]};
  } else if (direction == Direction::back) {
    const CarryElements own(path.call, block_value);
    float elements[kHead / 2];
#pragma unroll
    for (int i = 0; i < kHead / 2; ++i) elements[i] = up * s[i / 4][i % 4];
    store_state(
        back.dinitial_state, n, head, [&](int i) { return own.key(i); }, [&](int i) { return own.value(i); },
        [&](int i) { return own.in_state(i); }, elements);
  }
}

/// What the warps that carry, and those that copy, know of the block's task.
template <Direction direction, bool by_channel>
struct CarryBlock {
  static constexpr bool kBack = direction == Direction::back;
  static constexpr int kTiles = kHead / 8, kHalf = kCarryThreads / 2;  ///< threads of either role
  using Path = CarryPath<direction>;

  const BackwardCall& back;
  const BackwardMemory& workspace;
  CarryMemory<direction, by_channel>& memory;
  Path path;
  int first_chunk, count;

  __device__ CarryBlock(const BackwardCall& call, const Path& own_path,
                        CarryMemory<direction, by_channel>& shared)
      : back(call),
        workspace(own_path.workspace),
        memory(shared),
        path(own_path),
        first_chunk(path.first_chunk(path.task.turn)),
        count(min(path.chunks - first_chunk, path.segments.length)) {}

  /// The block's chunk i, in the order of travel.
  __device__ int chunk(int i) const { return first_chunk + (kBack ? count - 1 - i : i); }
  __device__ ChunkMemory& memory_of(int i) const {
    return workspace.chunks[(path.first_place + chunk(i)) * back.call.HV + path.task.head];
  }
  __device__ const Rows& rows() const { return kBack ? back.do_ : back.call.v; }

  __device__ void copy_all();
  __device__ void carry_all(const Scales& scales);

 private:
  __device__ void copy(int i, int thread) const;
  __device__ void begin(float down, Slice<kTiles>& s) const;
  __device__ void compose(Slice<kTiles>& s) const;
};

// ---- The warps that copy

template <Direction direction, bool by_channel>
__device__ void CarryBlock<direction, by_channel>::copy(int i, int thread) const {
  if (i < count) {
    const RecurrenceCall& call = back.call;
    const int head = path.task.head;
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
        copy_bulk(
            workspace.keys[(path.first_place + chunk(i)) * (call.HV / call.group) + head / call.group].k,
            keys, arrival);
      if constexpr (kBack) copy_bulk(from.Qh, stage.Q, arrival);
      copy_bulk(from.factors, stage.factors, arrival);
    }
    const std::int64_t t0 = path.sequence.begin + std::int64_t{chunk(i)} * kTokens;
    if (path.task.begin != Begin::identity)
      copy_input<kHalf, kCarryValues>(
          rows(), head, path.task.value, kCarryValues,
          {path.sequence.batch, t0, static_cast<int>(min(path.sequence.end - t0, std::int64_t{kTokens}))},
          stage.rows, thread);
  }
  __pipeline_commit();
}

template <Direction direction, bool by_channel>
__device__ void CarryBlock<direction, by_channel>::copy_all() {
  const int thread = static_cast<int>(threadIdx.x) - kHalf;
  const bool keeps = path.task.keeps_states();
  if (thread == 0) {
#pragma unroll
    for (Arrival& arrival : memory.arrivals) arrival.begin();
    memory.of_P.begin();
  }
  if (path.task.begin == Begin::identity)  // its values are zeros
    for (auto& stage : memory.stages) clear_rows<kHalf>(stage.rows, 0, thread);
  copy(0, thread), copy(1, thread);
  if (path.task.begin == Begin::composed) {
    for (int past = 1; past < path.task.turn; ++past) {
      if (thread == 0) {
        memory.of_P.expect(sizeof(StateTile));
        copy_bulk(path.segment(past).P, memory.P, memory.of_P);
      }
      meet<kCarryThreads>(), meet<kCarryThreads>();
    }
  }
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    __pipeline_wait_prior(1);
    if (thread == 0) memory.arrivals[i % kCarryStages].wait(i / kCarryStages);
    meet<kCarryThreads>();
    copy(i + 2, thread);  // to where the chunk before was
    if (!keeps) continue;
    const auto& S = memory.S[i % 2];
    StateTile& to = kBack ? memory_of(i).dS : memory_of(i).S;
    constexpr int kNumbers = kCarryValues * StateTile::kRow;  // of half of the channels
#pragma unroll
    for (int at = 0; at < 2 * kNumbers; at += kHalf * 8) {
      const int from = at % kNumbers + thread * 8;
      *reinterpret_cast<uint4*>(to.halves[at / kNumbers].at + path.task.value * StateTile::kRow + from) =
          *reinterpret_cast<const uint4*>(S.halves[at / kNumbers].at + from);
    }
  }
}

// ---- The warps that carry

template <Direction direction, bool by_channel>
__device__ void CarryBlock<direction, by_channel>::begin(float down, Slice<kTiles>& s) const {
  const CarryTask& task = path.task;
  const CarryElements own(back.call, task.value);
  float elements[4 * kTiles];
  if (task.begin == Begin::given) {
    load_state(
        kBack ? back.dht : back.call.initial_state, task.n, task.head, [&](int i) { return own.key(i); },
        [&](int i) { return own.value(i); }, [&](int i) { return own.in_state(i); }, elements);
  }
#pragma unroll
  for (int i = 0; i < 4 * kTiles; ++i) {
    const bool one = task.begin == Begin::identity && own.key(i) == own.value(i);
    s[i / 4][i % 4] = task.begin == Begin::given ? down * elements[i] : one ? 1 : 0;
  }
}

/// What the segments before leave.
template <Direction direction, bool by_channel>
__device__ void CarryBlock<direction, by_channel>::compose(Slice<kTiles>& s) const {
#pragma unroll 1
  for (int past = 0; past < path.task.turn; ++past) {
    const auto& ends = path.ends(past);
    float4 R[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) R[tile] = ends[tile][threadIdx.x];
    if (past > 0) {
      meet<kCarryThreads>();
      memory.of_P.wait(past - 1);
      go_through<direction>(memory.P, s);
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      s[tile][0] += R[tile].x, s[tile][1] += R[tile].y, s[tile][2] += R[tile].z, s[tile][3] += R[tile].w;
    if (past > 0) meet<kCarryThreads>();  // P has been read
  }
}

template <Direction direction, bool by_channel>
__device__ void CarryBlock<direction, by_channel>::carry_all(const Scales& scales) {
  const RecurrenceCall& call = back.call;
  const Scale scale = kBack ? scales.gradients : scales.values;
  const float factor = kBack ? scale.down * call.scale : scale.down;
  const DType dtype = rows().dtype;
  const int p = threadIdx.x % 4, row = static_cast<int>(threadIdx.x) / 32 * 16;
  Slice<kTiles> s;
  begin(scale.down, s);
  if (path.task.begin == Begin::composed) compose(s);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const auto& stage = memory.stages[i % kCarryStages];
    const auto pair_of = [&](int which, int tile) {
      return *reinterpret_cast<const float2*>(stage.factors[which] + 8 * tile + 2 * p);
    };
    Packed<kTiles> kept;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        kept.at[tile][r] = pack_finite_f16(s[tile][2 * r], s[tile][2 * r + 1]);
        word_of(memory.S[i % 2].halves[tile / 8], row, 0, tile % 8, r) = kept.at[tile][r];
      }
    }
    meet<kCarryThreads>();
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
          const float2 x = unpack(word, dtype);
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
        const float2 pair = kBack ? float2{0, 0} : unpack(words[m], dtype),
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
    if constexpr (!kBack && !by_channel) {  // in the first pass, too: the second one writes over it
#pragma unroll
      for (int t = 0; t < kTokens / 16; ++t)
        memory_of(i).Z[(path.task.value + row) / 16][t][threadIdx.x % 32] = Y[t];
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
  keep_end(back, path, scale.up, s);
}

/// The first pass, or the second one, of sequences that are cut.
template <bool by_channel>
__global__ void __launch_bounds__(kCarryThreads, 1)
    carry(const __grid_constant__ BackwardCall back, const __grid_constant__ BackwardMemory workspace,
          const __grid_constant__ CarryBlocks blocks, bool second) {
  extern __shared__ __align__(1024) char shared[];
  Direction direction;
  const CarryTask task = blocks.task(back.call, second, blockIdx.x, direction);
  if (task.n < 0) return;
  const auto carry_as = [&]<Direction own_direction>() {
    const CarryPath<own_direction> path(back.call, workspace, task, blocks.segments);
    if (!path.is_there()) return;
    using Block = CarryBlock<own_direction, by_channel>;
    Block own(back, path, *reinterpret_cast<CarryMemory<own_direction, by_channel>*>(shared));
    if (threadIdx.x >= Block::kHalf)
      own.copy_all();
    else
      own.carry_all(Scales(back.call, workspace, task.n, task.head));
  };
  direction == Direction::back ? carry_as.template operator()<Direction::back>()
                               : carry_as.template operator()<Direction::forward>();
}

}  // namespace fla::cuda_backward
