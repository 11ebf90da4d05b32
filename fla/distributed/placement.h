#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fla/core/export.h"

namespace fla::distributed {

/// Which rank has which tokens of a batch of packed sequences: the tokens are cut into parts, and every part
/// has a rank. The tokens that a rank has are its parts, one behind the other as they come in the batch.
struct Placement {
  std::vector<std::int64_t> cuts;  ///< where parts begin, 0 first, and behind them the tokens of the batch
  std::vector<int> ranks;          ///< of each part; a rank may have none

  /// One part a rank, of lengths that differ by at most one token.
  FLA_API static Placement contiguous(std::int64_t tokens, int ranks);
  /// Two parts a rank, the r-th from the front and the r-th from the end, as attention next to these ops
  /// wants it.
  FLA_API static Placement zigzag(std::int64_t tokens, int ranks);
};

/// The tokens that a part has of one sequence.
struct Piece {
  std::int64_t sequence;    ///< of the batch
  std::int64_t part;        ///< of the placement
  std::int64_t begin, end;  ///< in the batch
  std::int64_t first;       ///< where they are among the tokens of their rank
  bool begins, ends;        ///< whether the sequence does, here

  std::int64_t count() const { return end - begin; }
};

/// The pieces of all parts, in the batch's order; those of a rank follow each other in that order, too. An
/// empty sequence is a piece of the part in which it lies. Throws InvalidArgument unless the placement is one
/// for that many ranks and cu_seqlens, which end at its last cut.
FLA_API std::vector<Piece> pieces_of(const Placement& placement, std::span<const std::int64_t> cu_seqlens,
                                     int ranks);

}  // namespace fla::distributed
