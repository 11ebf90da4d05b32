#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/program.h"
#include "tools/bench/links.h"

/// What fla_bench_ranks counts and works out; its times are the machine's business.
namespace {

using fla::bench::all_gather_seconds;
using fla::bench::all_to_all_seconds;
using fla::bench::Links;
using fla::testing::Outcome;
using testing::HasSubstr;

constexpr Links kLinks{.node = 8, .nvlink = 100, .infiniband = 10, .nvlink_step = 0.5, .infiniband_step = 2};

TEST(Links, AllGatherWithinANodeIsATreeAndTheOthersBlocks) {
  EXPECT_DOUBLE_EQ(all_gather_seconds(kLinks, 1, 40), 0);
  EXPECT_DOUBLE_EQ(all_gather_seconds(kLinks, 2, 40), 0.5 + 0.4);
  EXPECT_DOUBLE_EQ(all_gather_seconds(kLinks, 8, 40), 3 * 0.5 + 7 * 0.4);
}

TEST(Links, AllGatherBringsOtherNodesBlocksInOverAllLinksOfTheNode) {
  // 4 nodes: 2 steps; 24 blocks of 40 bytes from outside, an eighth of them over each link of 10 bytes a
  // second.
  EXPECT_DOUBLE_EQ(all_gather_seconds(kLinks, 32, 40), 3 * 0.5 + 2 * 2 + 31 * 0.4 + 24 * 40 / 8.0 / 10);
}

TEST(Links, AllToAllGivesEachRankItsPart) {
  EXPECT_DOUBLE_EQ(all_to_all_seconds(kLinks, 1, 80), 0);
  EXPECT_DOUBLE_EQ(all_to_all_seconds(kLinks, 8, 80), 0.5 + 7 * 10 / 100.0);
  EXPECT_DOUBLE_EQ(all_to_all_seconds(kLinks, 16, 80), 0.5 + 2 + 7 * 5 / 100.0 + 8 * 5 / 10.0);
}

Outcome bench(std::vector<std::string> words) {
  words.insert(words.begin(), FLA_BENCH_RANKS);
  return fla::testing::run_program(words, {.variables = {{"FLA_NUM_THREADS", "1"}}});
}

/// The cells of the lines that begin with a number, by that number; those of the table of parts come first.
std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    if (!cells.empty() && cells[0].find_first_not_of("0123456789") == std::string::npos)
      rows.push_back(cells);
  }
  return rows;
}

TEST(BenchRanks, CountsTheBytesOfSummariesAndPlansForAnyRanks) {
  const Outcome outcome = bench({"--tokens", "64", "--heads", "16", "--keys", "16", "--values", "8"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("kda, B1 T64 H16 K16 V8 a rank, bf16, cpu; chunk_kda by "));
  const std::int64_t bytes = 16 * 16 * (8 + 16) * 4;
  EXPECT_THAT(outcome.out, HasSubstr("a summary has " + std::to_string(bytes) + " bytes"));
  // q, k of 16 channels and v of 8 in bf16, g of 16 and beta in f32; o like v
  EXPECT_THAT(outcome.out,
              HasSubstr("all-to-all moves " + std::to_string(64 * 16 * (2 * (16 + 16 + 8) + 4 * (16 + 1))) +
                        " bytes of inputs and " + std::to_string(64 * 16 * 8 * 2) + " of outputs a rank"));
  const auto rows = rows_of(outcome.out);
  ASSERT_EQ(rows.size(), 4u + 10u);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t parts = std::int64_t{1} << i;
    EXPECT_EQ(rows[i][0], std::to_string(parts));
    EXPECT_EQ(rows[i][1], std::to_string(64 / parts));
    EXPECT_EQ(rows[i].back(), std::to_string((parts - 1) * bytes));  // the last part goes nowhere
  }
  for (std::size_t i = 4; i < rows.size(); ++i) {
    const std::int64_t ranks = std::int64_t{8} << (i - 4);
    EXPECT_EQ(rows[i][0], std::to_string(ranks));
    EXPECT_EQ(rows[i][1], std::to_string(64 * ranks));
    EXPECT_EQ(rows[i].back() == "-", ranks > 16) << "heads cannot be shared out to more ranks than there are";
  }
}

TEST(BenchRanks, SummariesOfAdditiveOpsHaveADiagonal) {
  const Outcome outcome = bench(
      {"--op", "gla", "--tokens", "16", "--heads", "2", "--keys", "16", "--values", "8", "--dtype", "f32"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("a summary has " + std::to_string(2 * 16 * (8 + 1) * 4) + " bytes"));
}

TEST(BenchRanks, TakesLinksAndRefusesWhatIsNone) {
  const Outcome slow =
      bench({"--tokens", "16", "--heads", "1", "--keys", "8", "--values", "8", "--nvlink", "1",
             "--infiniband", "0.5", "--node", "4", "--nvlink-step", "7", "--infiniband-step", "9"});
  EXPECT_THAT(slow.out,
              HasSubstr("links of a GPU, each way: 1 GB/s to the 4 of its node after 7 us, 0.5 GB/s to "
                        "others after 9 us\n"));
  const auto refused = [](std::vector<std::string> words, const std::string& why) {
    const Outcome outcome = bench(std::move(words));
    EXPECT_EQ(outcome.code, 2) << why;
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr(why));
  };
  refused({"--op", "ring"}, "op: expected one of kda, ");
  refused({"--device", "tpu"}, "--device: expected cpu, cuda or cuda:N, got 'tpu'");
  refused({"--device", "cuda:99"}, "device: expected cpu");
  refused({"--dtype", "f8"}, "--dtype");
  refused({"--heads", "0"}, "--heads");
  refused({"--keys", "257"}, "--keys");
  refused({"--nvlink", "0"}, "--nvlink");
}

}  // namespace
