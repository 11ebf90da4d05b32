#include "fla/distributed/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"

namespace {

using fla::distributed::Piece;
using fla::distributed::Placement;
using Numbers = std::vector<std::int64_t>;

/// "sequence part begin-end first", with [ where the sequence begins and ] where it ends.
std::vector<std::string> written(const Placement& placement, const Numbers& cu_seqlens, int ranks) {
  std::vector<std::string> lines;
  for (const Piece& piece : pieces_of(placement, cu_seqlens, ranks)) {
    lines.push_back(std::to_string(piece.sequence) + " " + std::to_string(piece.part) + " " +
                    (piece.begins ? "[" : "") + std::to_string(piece.begin) + "-" +
                    std::to_string(piece.end) + (piece.ends ? "]" : "") + " " + std::to_string(piece.first));
  }
  return lines;
}

TEST(Placement, CutsTokensEvenly) {
  const Placement contiguous = Placement::contiguous(10, 4);
  EXPECT_EQ(contiguous.cuts, (Numbers{0, 3, 6, 8, 10}));
  EXPECT_EQ(contiguous.ranks, (std::vector{0, 1, 2, 3}));
  const Placement zigzag = Placement::zigzag(10, 2);
  EXPECT_EQ(zigzag.cuts, (Numbers{0, 3, 6, 8, 10}));
  EXPECT_EQ(zigzag.ranks, (std::vector{0, 1, 1, 0}));
  EXPECT_EQ(Placement::contiguous(1, 3).cuts, (Numbers{0, 1, 1, 1}));
}

TEST(Placement, CutsSequencesIntoPieces) {
  using testing::ElementsAre;
  EXPECT_THAT(written({{0, 4, 8}, {0, 1}}, {0, 8}, 2), ElementsAre("0 0 [0-4 0", "0 1 4-8] 0"));
  EXPECT_THAT(written({{0, 4, 8}, {0, 1}}, {0, 4, 8}, 2), ElementsAre("0 0 [0-4] 0", "1 1 [4-8] 0"));
  EXPECT_THAT(written({{0, 3, 5, 8}, {0, 1, 0}}, {0, 2, 8}, 2),
              ElementsAre("0 0 [0-2] 0", "1 0 [2-3 2", "1 1 3-5 0", "1 2 5-8] 3"));
}

TEST(Placement, EmptyPartsHaveNoPiecesAndEmptySequencesHaveOne) {
  using testing::ElementsAre;
  EXPECT_THAT(written({{0, 0, 4, 4, 8}, {0, 1, 2, 0}}, {0, 8}, 3), ElementsAre("0 1 [0-4 0", "0 3 4-8] 0"));
  EXPECT_THAT(written({{0, 4, 8}, {0, 1}}, {0, 0, 4, 4, 8, 8}, 2),
              ElementsAre("0 0 [0-0] 0", "1 0 [0-4] 0", "2 1 [4-4] 0", "3 1 [4-8] 0", "4 1 [8-8] 4"));
  EXPECT_THAT(written({{0, 0, 0}, {0, 1}}, {0, 0}, 2), ElementsAre("0 1 [0-0] 0"));
}

TEST(PlacementRefuses, WhatIsNone) {
  const auto refused = [](const Placement& placement, const Numbers& cu_seqlens) {
    return fla_test::error_text<fla::InvalidArgument>([&] { (void)pieces_of(placement, cu_seqlens, 2); });
  };
  EXPECT_EQ(refused({{0, 4}, {0}}, {0}), "cu_seqlens: expected at least two numbers, the first of them 0");
  EXPECT_EQ(refused({{0, 4}, {0}}, {1, 4}), "cu_seqlens: expected at least two numbers, the first of them 0");
  EXPECT_EQ(refused({{0, 4}, {0}}, {0, 3, 2, 4}),
            "cu_seqlens: expected numbers that do not fall, got 3 before 2");
  EXPECT_EQ(refused({{0, 5, 4}, {0, 1}}, {0, 4}), "cuts: expected numbers that do not fall, got 5 before 4");
  EXPECT_EQ(refused({{0, 5}, {0}}, {0, 4}), "cuts: expected the last to be 4 as in cu_seqlens, got 5");
  EXPECT_EQ(refused({{0, 4}, {0, 1}}, {0, 4}), "ranks: expected one for each of 1 parts, got 2");
  EXPECT_EQ(refused({{0, 4}, {2}}, {0, 4}), "ranks: expected ranks below 2, got 2");
  EXPECT_EQ(refused({{0, 4}, {-1}}, {0, 4}), "ranks: expected ranks below 2, got -1");
}

}  // namespace
