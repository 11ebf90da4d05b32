#pragma once

#include <algorithm>
#include <cstdint>

#include "fla/ops/recurrence/cuda/chunk.cuh"

/// Few heads have few blocks that carry their states, one chunk after another. So their long sequences are
/// cut into segments, which are carried at once:
///
///     1   each but the first from zero, to R, and an identity through each, to P; the first as it is
///     2   each but the first from where it begins: S' = P S + R through the segments before it
///
/// Back it is the same, from the last segment on, with P^T. How a sequence is cut follows from its own length
/// and from the op's heads alone: its results are the same in any batch.
namespace fla::cuda_backward {

inline constexpr int kLeastSegment = 16;  ///< chunks: with fewer a segment takes less time than its beginning

/// How many segments a sequence may have: as many as an H100 has multiprocessors for in the first pass, if
/// these are 3.
inline int most_segments(const RecurrenceCall& call) {
  constexpr std::int64_t kMultiprocessors = 132;
  const std::int64_t values = call.V / 64;
  const auto blocks = [&](int count) { return call.HV * (2 * values * (count - 1) + 2 * (count - 2)); };
  int most = 2;
  while (blocks(most + 1) <= kMultiprocessors) ++most;
  return most < 3 ? 1 : most;
}
/// At most so many sequences are cut.
inline std::int64_t most_cut(const RecurrenceCall& call) {
  if (call.HV == 0 || most_segments(call) == 1) return 0;
  const std::int64_t least = 3 * kLeastSegment * 64;  // tokens
  return call.cu_seqlens.data ? std::min(call.N, call.T / (least - 63)) : call.T > least - 64 ? call.N : 0;
}
inline bool may_be_cut(const RecurrenceCall& call) { return most_cut(call) > 0; }

/// The segments of a sequence.
struct Segments {
  int count = 1, length;  ///< chunks; the last one may be shorter

  __device__ Segments(int chunks, int most) : length(chunks) {
    const int wanted = min(most, chunks / kLeastSegment);
    if (wanted < 3) return;
    length = (chunks + wanted - 1) / wanted;
    count = (chunks + length - 1) / length;
  }
};

}  // namespace fla::cuda_backward
