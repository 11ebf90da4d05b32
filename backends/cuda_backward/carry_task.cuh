#pragma once

#include "backends/cuda_backward/workspace.cuh"

/// What a block of carry works on: a direction, 64 values of a head, and a segment of a sequence, which most
/// often is the whole sequence (segments.cuh).
namespace fla::cuda_backward {

enum class Direction { forward, back };

/// What a block begins with (segments.cuh).
enum class Begin {
  given,     ///< the sequence's first state
  zero,      ///< for R
  identity,  ///< for P: it has channels in the place of values
  composed,  ///< what the segments before have left
};
struct CarryTask {
  Begin begin;
  std::int64_t n;
  int head, value;  ///< the first of the block's
  int turn;         ///< of the segments in the order of travel

  /// Those of chunks.
  __device__ bool keeps_states() const { return begin == Begin::given || begin == Begin::composed; }
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

/// Of the sequences that are cut the one with this number, or -1. All lanes of a warp call this.
__device__ inline std::int64_t cut_sequence(const RecurrenceCall& call, std::int64_t number) {
  if (!call.cu_seqlens.data) return number;
  for (std::int64_t n0 = 0; n0 < call.N; n0 += 32) {
    const std::int64_t n = n0 + threadIdx.x % 32;
    bool cut = false;
    if (n < call.N) {
      const Sequence sequence = sequence_of(call, n);
      cut = sequence.end - sequence.begin > (3 * kLeastSegment - 1) * kTokens;
    }
    const unsigned all = __ballot_sync(~0u, cut);
    for (int lane = 0; lane < 32; ++lane)
      if ((all >> lane & 1) && number-- == 0) return n0 + lane;
  }
  return -1;
}

/// Where a task's chunks and segments lie.
template <Direction direction>
struct CarryPath {
  static constexpr bool kBack = direction == Direction::back;
  const RecurrenceCall& call;
  const BackwardMemory& workspace;
  CarryTask task;
  Sequence sequence;
  std::int64_t first_place;
  int chunks;  ///< of the sequence
  Segments segments;

  __device__ CarryPath(const RecurrenceCall& own_call, const BackwardMemory& memory,
                       const CarryTask& own_task, int most_segments)
      : call(own_call),
        workspace(memory),
        task(own_task),
        sequence(sequence_of(call, task.n)),
        first_place(chunk_place<kTokens>(call, sequence, task.n, 0)),
        chunks(static_cast<int>((sequence.end - sequence.begin + kTokens - 1) / kTokens)),
        segments(chunks, most_segments) {}

  __device__ bool is_last() const { return task.turn == segments.count - 1; }
  /// The last one has no use for R, and none for P.
  __device__ bool is_there() const {
    return task.turn < segments.count - (task.begin == Begin::zero || task.begin == Begin::identity ? 1 : 0);
  }
  __device__ int first_chunk(int turn) const {
    return (kBack ? segments.count - 1 - turn : turn) * segments.length;
  }
  __device__ SegmentMemory& segment(int turn) const {
    return workspace.segments[(first_place + first_chunk(turn)) / kLeastSegment * call.HV + task.head];
  }
  /// The last segment of a sequence and the first one of the next may share a place; each has another side.
  __device__ auto& ends(int turn) const { return segment(turn).ends[kBack][task.value / kCarryValues]; }
};

/// How many blocks either pass has.
struct CarryBlocks {
  std::int64_t of_whole;    ///< of one direction: a sequence, a head and a part of its values each
  std::int64_t of_cut = 0;  ///< of one direction and segment: the same of sequences that may be cut
  std::int64_t of_P = 0;    ///< of one segment
  int segments = 1;         ///< at most

  explicit CarryBlocks(const RecurrenceCall& call) : of_whole(call.N * call.HV * (call.V / kCarryValues)) {
    if (!may_be_cut(call)) return;
    segments = most_segments(call);
    of_cut = most_cut(call) * call.HV * (call.V / kCarryValues);
    of_P = most_cut(call) * call.HV * (kHead / kCarryValues);
  }
  std::int64_t first() const {
    return 2 * of_whole + (segments > 1 ? (segments - 2) * (2 * of_cut + of_P) : 0);
  }
  std::int64_t second() const { return 2 * (segments - 1) * of_cut; }

  /// What a block has to do; its n is -1 where that is nothing. Back takes longer, so it starts first, and so
  /// do sequences as they are. All threads of a block call this.
  __device__ CarryTask task(const RecurrenceCall& call, bool second, std::int64_t block,
                            Direction& direction) const {
    CarryTask task{.begin = Begin::given, .turn = 0};
    int values = call.V / kCarryValues;
    bool back;
    if (!second && block < 2 * of_whole) {
      back = block < of_whole;
      block %= of_whole;
    } else {
      if (!second) block -= 2 * of_whole;
      const std::int64_t in_direction = (segments - (second ? 1 : 2)) * of_cut;
      back = block < in_direction;
      task.begin = second ? Begin::composed : Begin::zero;
      std::int64_t of_segment = of_cut;
      if (block >= 2 * in_direction) {
        task.begin = Begin::identity, values = kHead / kCarryValues, of_segment = of_P;
        block -= 2 * in_direction;
      } else {
        block %= in_direction;
      }
      task.turn = 1 + static_cast<int>(block / of_segment), block %= of_segment;
    }
    direction = back ? Direction::back : Direction::forward;
    task.value = static_cast<int>(block % values) * kCarryValues;
    task.head = static_cast<int>(block / values % call.HV);
    const std::int64_t number = block / values / call.HV;
    task.n = task.begin == Begin::given ? longest_first(call, number) : cut_sequence(call, number);
    return task;
  }
};

}  // namespace fla::cuda_backward
