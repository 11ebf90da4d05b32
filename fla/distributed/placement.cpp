#include "fla/distributed/placement.h"

#include <algorithm>
#include <string>

#include "fla/core/errors.h"

namespace fla::distributed {
namespace {

Placement even_parts(std::int64_t tokens, int parts) {
  Placement placement;
  for (std::int64_t i = 0; i <= parts; ++i)
    placement.cuts.push_back(tokens / parts * i + std::min(i, tokens % parts));
  return placement;
}

void check_rising(const char* argument, std::span<const std::int64_t> numbers) {
  if (numbers.size() < 2 || numbers.front() != 0)
    throw InvalidArgument(argument, "expected at least two numbers, the first of them 0");
  const auto fall = std::ranges::is_sorted_until(numbers);
  if (fall != numbers.end()) {
    throw InvalidArgument(argument, "expected numbers that do not fall, got " + std::to_string(fall[-1]) +
                                        " before " + std::to_string(*fall));
  }
}

void check(const Placement& placement, std::span<const std::int64_t> cu_seqlens, int ranks) {
  check_rising("cu_seqlens", cu_seqlens);
  check_rising("cuts", placement.cuts);
  if (cu_seqlens.back() != placement.cuts.back()) {
    throw InvalidArgument("cuts", "expected the last to be " + std::to_string(cu_seqlens.back()) +
                                      " as in cu_seqlens, got " + std::to_string(placement.cuts.back()));
  }
  if (placement.ranks.size() + 1 != placement.cuts.size()) {
    throw InvalidArgument("ranks", "expected one for each of " + std::to_string(placement.cuts.size() - 1) +
                                       " parts, got " + std::to_string(placement.ranks.size()));
  }
  for (const int rank : placement.ranks) {
    if (rank < 0 || rank >= ranks) {
      throw InvalidArgument(
          "ranks", "expected ranks below " + std::to_string(ranks) + ", got " + std::to_string(rank));
    }
  }
}

}  // namespace

Placement Placement::contiguous(std::int64_t tokens, int ranks) {
  Placement placement = even_parts(tokens, ranks);
  for (int i = 0; i < ranks; ++i) placement.ranks.push_back(i);
  return placement;
}

Placement Placement::zigzag(std::int64_t tokens, int ranks) {
  Placement placement = even_parts(tokens, 2 * ranks);
  for (int i = 0; i < 2 * ranks; ++i) placement.ranks.push_back(std::min(i, 2 * ranks - 1 - i));
  return placement;
}

std::vector<Piece> pieces_of(const Placement& placement, std::span<const std::int64_t> cu_seqlens,
                             int ranks) {
  check(placement, cu_seqlens, ranks);
  std::vector<Piece> pieces;
  std::vector<std::int64_t> before(static_cast<std::size_t>(ranks), 0);  // a rank's tokens so far
  const std::size_t parts = placement.ranks.size(), sequences = cu_seqlens.size() - 1;
  std::size_t sequence = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::int64_t begin = placement.cuts[part], end = placement.cuts[part + 1];
    std::int64_t& first = before[static_cast<std::size_t>(placement.ranks[part])];
    // The next sequence that may have tokens here is the one that reached the last cut, or the one after it.
    for (; sequence < sequences; ++sequence) {
      const std::int64_t from = cu_seqlens[sequence], to = cu_seqlens[sequence + 1];
      const bool empty_here = from == to && (from < end || part + 1 == parts);
      const bool has_tokens = from < to && from < end && to > begin && begin < end;
      if (!empty_here && !has_tokens) break;
      const Piece piece{.sequence = static_cast<std::int64_t>(sequence),
                        .part = static_cast<std::int64_t>(part),
                        .begin = std::max(begin, from),
                        .end = std::min(end, to),
                        .first = first + std::max(begin, from) - begin,
                        .begins = from >= begin,
                        .ends = to <= end};
      pieces.push_back(piece);
      if (!piece.ends) break;
    }
    first += end - begin;
  }
  return pieces;
}

}  // namespace fla::distributed
