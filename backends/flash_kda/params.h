#pragma once

#include "backends/flash_kda/ptx.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

/// What the kernels of flash_kda are given, beyond the call itself: tensor maps, and who does what when.
///
/// An *item* is one value head of one sequence: its chunks form a chain of states. Items are dealt to
/// `streams`, round by round: item i is in round i / streams of stream i % streams. A stream is what one CTA
/// of the state kernel works through, or one for each half of V. A *task* is one chunk of one item; tasks are
/// numbered so that all streams advance together: chunk 0 of a round's items, chunk 1, …. With variable
/// length the sequences are sorted by length, the longest first; the items of a round that still have a chunk
/// c are then the first ones, a *slice* of the tasks without holes.
namespace fla::flash_kda {

using cuda::Gate;
using cuda::Indices;
using cuda::Parameters;
using cuda::Rows;
using cuda::States;

/// n / divisor for n below 2^31, without a division: the host has prepared it.
struct Divisor {
  std::uint32_t divisor = 1, multiplier = 1, shift = 0;
  Divisor() = default;
  explicit Divisor(std::int64_t by) : divisor(static_cast<std::uint32_t>(by)) {
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    multiplier = static_cast<std::uint32_t>((((std::uint64_t{1} << shift) - divisor) << 32) / divisor + 1);
  }
};
FLA_DEVICE std::int32_t operator/(std::int32_t n, const Divisor& by) {
  const auto x = static_cast<std::uint32_t>(n);
  const auto high = static_cast<std::uint32_t>(std::uint64_t{x} * by.multiplier >> 32);
  return static_cast<std::int32_t>((high + x) >> by.shift);
}
FLA_DEVICE std::int32_t operator%(std::int32_t n, const Divisor& by) {
  return n - (n / by) * static_cast<std::int32_t>(by.divisor);
}

struct alignas(16) Sequence {
  std::int32_t n, begin, tokens, chunks;
};

/// A task, as prep wants to know it at one look.
struct alignas(16) PlannedTask {
  std::int32_t head, token, stream_rows, number;  ///< stream_rows: 128 stream + rows
};

/// Variable length only: made from cu_seqlens by the plan kernel.
struct Plan {
  Sequence* sequences = nullptr;   ///< [N], most chunks first
  std::int32_t* slices = nullptr;  ///< [chunks], packets kept: the first task with that chunk
  PlannedTask* list = nullptr;     ///< [tasks]
  std::int32_t* tasks = nullptr;
};

/// Counters that many CTAs look at lie apart: in one line of L2 they would queue.
inline constexpr std::int32_t kReadyApart = 8, kTakenApart = 64, kPartsApart = 64;

struct Schedule {
  std::int32_t items = 0, streams = 0;
  std::int32_t chunks = 0;  ///< of every sequence, without a plan
  std::int32_t tasks = 0;   ///< without a plan
  Plan plan{};
  Divisor by_items{}, by_heads{}, by_group{},
      by_depth{};                 ///< items; value heads; those of a key head; places
  Divisor by_streams{};           ///< items of a round
  Divisor by_round{}, by_rest{};  ///< without a plan: tasks of a round; items of the last

  // How packets pass from prep to state. Kept: all packets in order of their tasks. Passed: `depth` places a
  // stream, used in turn, while both run: ready[stream * depth + place] is 1 + the number (of the stream's
  // chunks) of the packet there, taken[state block] how many packets have been read. claim is the next task
  // that nobody has.
  std::uint8_t* packets = nullptr;
  std::int32_t depth = 0;  ///< 0: kept
  std::uint32_t* ready = nullptr;
  std::uint32_t* taken = nullptr;
  std::uint32_t* claim = nullptr;
  // While both run: how many CTAs have taken up a stream; kPartsApart further, how many prepare.
  std::uint32_t* parts = nullptr;
};

/// Few items: every chain is cut into segments of `length` chunks. What a segment does to the state before it
/// is S -> P S + R (segment.cuh); `images` then hold the states that the segments 1, 2, … begin with.
struct Segments {
  std::int32_t count = 1;            ///< at most, of an item
  std::int32_t length = 0x7fffffff;  ///< chunks
  /// [items][count - 1][2 warpgroups][64][128 threads]: a state / 16 as registers hold it; behind them,
  /// [items] [count - 1] u32, whether a segment has forgotten the state before it
  float* images = nullptr;
  std::uint8_t* transitions =
      nullptr;  ///< [items][count - 2][2 halves of 64 columns][128 rows][128 bytes]: P, f16, swizzled
};

/// Squares of norms that are ordinary (range.cuh).
struct Window {
  float least = 0, most = 0;
};

struct Params {
  TensorMap q, k, g, v, o;
  TensorMap first_state, last_state;               ///< boxes of 64 rows x 32 columns of a head's state
  bool first_by_tma = false, last_by_tma = false;  ///< where strides allow it
  RecurrenceCall call;
  Window windows[2];  ///< of queries, of keys, as they come
  Schedule schedule;
  Segments segments;
  std::int32_t state_blocks = 0;  ///< CTAs that run chains, one or two a stream; the others prepare
  bool split = false;             ///< two a stream: each has half of V. First all of the first half
  bool gate_f32 = false;          ///< g is f32, read without TMA
  bool bias_rows =
      false;  ///< dt_bias is there and f32, a head's channels side by side from a multiple of 16 bytes on
  bool looks =
      false;  ///< segments may begin without their past (segment.cuh): they are long enough for a look
  std::uint32_t* probe = nullptr;  ///< probe builds: [part][warpgroup][16] cycles
};

}  // namespace fla::flash_kda
