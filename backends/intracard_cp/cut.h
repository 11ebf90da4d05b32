#pragma once

#include <algorithm>
#include <cstdint>

#include "fla/ops/recurrence/arguments.h"

/// How a call's sequences are cut. A sequence's parts are equally long, but for the last one, and follow from
/// its own length: it has the same bits alone and beside others. The host looks at sizes only, never at the
/// contents of cu_seqlens, so that a call neither waits for them nor breaks a graph capture.
namespace fla::intracard_cp {

inline constexpr std::int64_t kBlockValues = 32;     ///< of a block of the original kernels
inline constexpr std::int64_t kLeastParts = 4;       ///< with fewer, three passes take as long as one
inline constexpr std::int64_t kMostParts = 48;       ///< with more, going from part to part takes longest
inline constexpr std::int64_t kLeastTokens = 16384;  ///< of a sequence, unless the environment says otherwise
inline constexpr std::int64_t kLeastPart = 256;      ///< tokens
inline constexpr std::int64_t kTokensMultiple = 64;  ///< parts are multiples of so many tokens

/// The sizes that matter.
struct Sizes {
  std::int64_t T = 0;  ///< of a batch, or of all packed sequences
  std::int64_t tokens = 0, N = 0;
  std::int64_t blocks = 0;   ///< blocks of values in all heads of one sequence
  std::int64_t at_once = 2;  ///< blocks that a multiprocessor runs together
};

inline Sizes sizes_of(const recurrence::Arguments& args) {
  const std::int64_t B = args.q.size(0), T = args.q.size(1);
  return {.T = T,
          .tokens = B * T,
          .N = args.cu_seqlens.defined() ? args.cu_seqlens.size(0) - 1 : B,
          .blocks = args.v.size(2) * ((args.v.size(3) + kBlockValues - 1) / kBlockValues),
          // Registers decide.
          .at_once = args.op.rule == Rule::delta && args.op.gate != GateKind::channel ? 1 : 2};
}

/// How many blocks the device runs at once.
inline std::int64_t room_for(const Sizes& sizes, int multiprocessors) {
  return sizes.at_once * multiprocessors;
}

struct Cut {
  std::int64_t parts;  ///< of a sequence, at most
  std::int64_t least;  ///< tokens of a part; a multiple of kTokensMultiple
};

/// As many parts of a sequence as the processors run at once, of sizes that the verifier accepts.
inline Cut cut_of(const Sizes& sizes, int multiprocessors) {
  const std::int64_t most = std::min(kMostParts, room_for(sizes, multiprocessors) / sizes.blocks);
  return {.parts = std::min(most, (sizes.T + kLeastPart - 1) / kLeastPart), .least = kLeastPart};
}

}  // namespace fla::intracard_cp
