#pragma once

#include "backends/cuda_backward/carry_task.cuh"
#include "backends/cuda_backward/stages.cuh"

/// Carries 64 values of a head's state forward through the chunks of a sequence, or its gradient back. The
/// state at the start of each chunk, or its gradient at the end, goes to the workspace. What a chunk does to
/// it: stages.cuh.
///
/// Half of the warps carry: each has 16 values, whose columns of S are rows here. S^T stays in registers, in
/// f32, and its f16 form is a left operand as it is. The others copy: the operators of two chunks to come,
/// and the state of the chunk that is worked on. They have a loop of their own, in which no registers are
/// kept for the state.
namespace fla::cuda_backward {

inline constexpr int kCarryStages = 3;

/// A block's values of a state, on their way between memory and registers. What runs once a block is a loop:
/// unrolled it was 20 us of instructions that came from memory.
struct StateRows {
  float at[kCarryValues][kHead + 1];

  template <int threads>
  __device__ void load(const States& from, const CarryTask& task, int channels, int thread) {
    constexpr int kAtOnce = 16;
#pragma unroll 1
    for (int first = thread; first < kCarryValues * kHead; first += kAtOnce * threads) {
      std::uint32_t bits[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const Place place(from, first + i * threads);
        if (place.channel < channels)
          bits[i] = load_bits(from.data, is_16_bit(from.dtype), place.in(from, task));
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const Place place(from, first + i * threads);
        at[place.value][place.channel] = to_float(bits[i], from.dtype);
      }
    }
  }
  template <int threads>
  __device__ void store(const States& to, const CarryTask& task, int channels, int thread) const {
#pragma unroll 4
    for (int i = thread; i < kCarryValues * kHead; i += threads) {
      const Place place(to, i);
      if (place.channel < channels)
        cuda::store(to.data, to.dtype, place.in(to, task), at[place.value][place.channel]);
    }
  }

 private:
  /// Of number i, so that neighbours have neighbouring addresses.
  struct Place {
    int value, channel;

    __device__ Place(const States& states, int i)
        : value(states.value == 1 ? i % kCarryValues : i / kHead),
          channel(states.value == 1 ? i / kCarryValues : i % kHead) {}
    __device__ std::int64_t in(const States& states, const CarryTask& task) const {
      return states.offset(task.n, task.head) + channel * states.key + (task.value + value) * states.value;
    }
  };
};

template <class Stage>
struct CarryMemory {
  union {
    Stage stages[kCarryStages];
    struct {
      Stage others[kCarryStages - 1];
      union {         // before the last stage is in use, and afterwards
        StateTile P;  ///< of a segment
        StateRows state;
      };
    };
  };
  SplitTile<kCarryValues> S[2];       ///< for the workspace
  typename Stage::Result results[2];  ///< of the chunk, and of the one before
  Arrival arrivals[kCarryStages], of_P;
};

/// S <- P S, or P^T S back, of the warp's 16 values: S in f16 and what that leaves of it.
template <Direction direction>
__device__ void go_through(const StateTile& P, StateSlice& s) {
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

/// What a segment leaves to the second pass.
template <Direction direction>
__device__ void keep_end(const CarryPath<direction>& path, const StateSlice& s) {
  const CarryTask& task = path.task;
  if (task.begin == Begin::identity) {
    StateTile& P = path.segment(task.turn).P;
    const int row = task.value + static_cast<int>(threadIdx.x) / 32 * 16;
#pragma unroll
    for (int tile = 0; tile < kHead / 8; ++tile) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
        word_of(P.halves[tile / 8], row, 0, tile % 8, r) =
            pack_finite_f16(s[tile][2 * r], s[tile][2 * r + 1]);
    }
  } else if (task.begin != Begin::composed && !path.is_last()) {
    auto& ends = path.ends(task.turn);
#pragma unroll
    for (int tile = 0; tile < kHead / 8; ++tile)
      ends[tile][threadIdx.x] = {s[tile][0], s[tile][1], s[tile][2], s[tile][3]};
  }
}

/// What the warps that carry, and those that copy, know of the block's task.
template <Direction direction, class Stage>
struct CarryBlock {
  static constexpr bool kBack = direction == Direction::back;
  static constexpr int kTiles = kHead / 8, kHalf = kCarryThreads / 2;  ///< threads of either role
  using Path = CarryPath<direction>;

  const BackwardCall& back;
  const BackwardMemory& workspace;
  CarryMemory<Stage>& memory;
  Path path;
  int first_chunk, count;

  __device__ CarryBlock(const BackwardCall& call, const Path& own_path, CarryMemory<Stage>& shared)
      : back(call),
        workspace(own_path.workspace),
        memory(shared),
        path(own_path),
        first_chunk(path.first_chunk(path.task.turn)),
        count(min(path.chunks - first_chunk, path.segments.length)) {}

  /// The block's chunk i, in the order of travel.
  __device__ int chunk(int i) const { return first_chunk + (kBack ? count - 1 - i : i); }
  __device__ std::int64_t number(int i) const {
    return (path.first_place + chunk(i)) * back.call.HV + path.task.head;
  }
  __device__ ChunkMemory& memory_of(int i) const { return workspace.chunks[number(i)]; }
  __device__ const Rows& rows() const { return kBack ? back.do_ : back.call.v; }

  __device__ const States& first_state() const { return kBack ? back.dht : back.call.initial_state; }
  __device__ bool has_first_state() const {
    return path.task.begin == Begin::given && first_state().data != nullptr;
  }
  __device__ bool ends_with_gradient() const {
    return kBack && path.task.keeps_states() && path.is_last() && back.dinitial_state.data != nullptr;
  }

  /// The first copies are under way, and the first state is there.
  __device__ void begin() const;
  __device__ void copy_all(const Scales& scales);
  __device__ void carry_all(const Scales& scales);

 private:
  __device__ void copy(int i, int thread) const;
  __device__ void keep_result(int i, int thread) const;
  /// 64 rows of 64 numbers to the workspace.
  __device__ static void copy_out(const std::uint16_t* from, std::uint16_t* to, int thread) {
#pragma unroll
    for (int at = 0; at < 64 * 64; at += kHalf * 8)
      *reinterpret_cast<uint4*>(to + at + thread * 8) =
          *reinterpret_cast<const uint4*>(from + at + thread * 8);
  }
  __device__ static int copying_thread() { return static_cast<int>(threadIdx.x) - kHalf; }
  /// The thread's numbers of the state, which lie in memory.state.
  template <class Body>
  __device__ static void with_own(Body&& body);
  __device__ void first(float down, StateSlice& s) const;
  __device__ void compose(StateSlice& s) const;
};

// ---- The warps that copy

template <Direction direction, class Stage>
__device__ void CarryBlock<direction, Stage>::copy(int i, int thread) const {
  if (i < count) {
    const RecurrenceCall& call = back.call;
    const int head = path.task.head;
    auto& stage = memory.stages[i % kCarryStages];
    if (thread == 0) {
      const std::int64_t place = path.first_place + chunk(i);
      stage.fetch(workspace, place * call.HV + head, place * (call.HV / call.group) + head / call.group,
                  memory.arrivals[i % kCarryStages]);
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

template <Direction direction, class Stage>
__device__ void CarryBlock<direction, Stage>::begin() const {
  if (const int thread = copying_thread(); thread >= 0) {
    if (thread == 0) {
#pragma unroll
      for (Arrival& arrival : memory.arrivals) arrival.begin();
      memory.of_P.begin();
    }
    if (path.task.begin == Begin::identity)  // its values are zeros
      for (auto& stage : memory.stages) clear_rows<kHalf>(stage.rows, 0, thread);
    copy(0, thread), copy(1, thread);
  }
  if (has_first_state())
    memory.state.template load<kCarryThreads>(first_state(), path.task, back.call.K,
                                              static_cast<int>(threadIdx.x));
  __syncthreads();
}

template <Direction direction, class Stage>
__device__ void CarryBlock<direction, Stage>::copy_all(const Scales& scales) {
  const int thread = copying_thread();
  const float factor = scales.gradients.down * back.call.scale;
  const DType dtype = rows().dtype;
  const bool keeps = path.task.keeps_states();
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
    if constexpr (kBack)  // E
      with_own_pieces<kHalf, kCarryValues>(
          memory.stages[i % kCarryStages].rows,
          [&](int, uint4& words) {
            change_words(words, [&](std::uint32_t word) {
              const float2 x = unpack(word, dtype);
              return pack_f16(factor * x.x, factor * x.y);
            });
          },
          thread);
    if (thread == 0) memory.arrivals[i % kCarryStages].wait(i / kCarryStages);
    meet<kCarryThreads>();
    copy(i + 2, thread);  // to where the chunk before was
    if (!keeps) continue;
    const auto& S = memory.S[i % 2];
    StateTile& to = kBack ? memory_of(i).dS : memory_of(i).S;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      copy_out(S.halves[half].at, to.halves[half].at + path.task.value * StateTile::kRow, thread);
    if (i > 0) keep_result(i - 1, thread);
  }
  meet<kCarryThreads>();
  if (keeps && count > 0) keep_result(count - 1, thread);
  meet<kCarryThreads>();
  if (ends_with_gradient())
    memory.state.template store<kHalf>(back.dinitial_state, path.task, back.call.K, thread);
}

/// Y, or dY, of the block's values.
template <Direction direction, class Stage>
__device__ void CarryBlock<direction, Stage>::keep_result(int i, int thread) const {
  if constexpr (Stage::kHasResult) {
    TokenMemory& tokens = workspace.tokens[number(i)];
    std::uint16_t* const to = (kBack ? tokens.dY : tokens.X).at;
    copy_out(memory.results[i % 2].at, to + path.task.value * KeyTile::kRow, thread);
    if (back.call.V < kHead)  // there is no other block for these
      for (int at = thread * 8; at < kCarryValues * KeyTile::kRow; at += kHalf * 8)
        *reinterpret_cast<uint4*>(to + kCarryValues * KeyTile::kRow + at) = {0, 0, 0, 0};
  }
}

// ---- The warps that carry

template <Direction direction, class Stage>
template <class Body>
__device__ void CarryBlock<direction, Stage>::with_own(Body&& body) {
  const int value = static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4,
            channel = 2 * (static_cast<int>(threadIdx.x) % 4);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int e = 0; e < 4; ++e) body(tile, e, value + e / 2 * 8, channel + 8 * tile + e % 2);
  }
}

template <Direction direction, class Stage>
__device__ void CarryBlock<direction, Stage>::first(float down, StateSlice& s) const {
  const int identity = path.task.begin == Begin::identity ? path.task.value : -kHead;
  with_own(
      [&](int tile, int e, int value, int channel) { s[tile][e] = channel == identity + value ? 1 : 0; });
  if (has_first_state())
    with_own([&](int tile, int e, int value, int channel) {
      s[tile][e] = down * memory.state.at[value][channel];
    });
}

/// What the segments before leave.
template <Direction direction, class Stage>
__device__ void CarryBlock<direction, Stage>::compose(StateSlice& s) const {
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

template <Direction direction, class Stage>
__device__ void CarryBlock<direction, Stage>::carry_all(const Scales& scales) {
  const Scale scale = kBack ? scales.gradients : scales.values;
  const int row = static_cast<int>(threadIdx.x) / 32 * 16;
  const GivenRows given{row, scale.down, rows().dtype};
  StateSlice s;
  first(scale.down, s);
  if (path.task.begin == Begin::composed) compose(s);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    Packed<kTiles> kept;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int r = 0; r < 2; ++r) kept.at[tile][r] = pack_finite_f16(s[tile][2 * r], s[tile][2 * r + 1]);
    }
    put_matrices(kept, memory.S[i % 2], row);
    meet<kCarryThreads>();
    memory.stages[i % kCarryStages].go_through(kept, given, memory.results[i % 2], s);
  }
  meet<kCarryThreads>();  // the last result is there, and no stage is in use
  if (ends_with_gradient())
    with_own([&](int tile, int e, int value, int channel) {
      memory.state.at[value][channel] = scale.up * s[tile][e];
    });
  meet<kCarryThreads>();
  keep_end(path, s);
}

/// The first pass, or the second one, of sequences that are cut.
template <template <Direction> class Stage>
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
    using Block = CarryBlock<own_direction, Stage<own_direction>>;
    Block own(back, path, *reinterpret_cast<CarryMemory<Stage<own_direction>>*>(shared));
    own.begin();
    const Scales scales(back.call, workspace, task.n, task.head);
    if (threadIdx.x >= Block::kHalf)
      own.copy_all(scales);
    else
      own.carry_all(scales);
  };
  direction == Direction::back ? carry_as.template operator()<Direction::back>()
                               : carry_as.template operator()<Direction::forward>();
}

}  // namespace fla::cuda_backward
