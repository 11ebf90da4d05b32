#include "tools/fla/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tools/fla/published_times.h"

namespace fla::command {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// What the kept results have, as people read them.
std::string kept_results() {
  std::ostringstream text;
  text << std::ifstream(FLA_SOURCE_DIR "/tools/bench/results/peers.txt").rdbuf();
  return text.str();
}

const CudaCase& case_named(const std::vector<CudaCase>& cases, std::string_view name) {
  for (const CudaCase& each : cases) {
    if (each.name == name) return each;
  }
  throw std::logic_error("no case " + std::string(name));
}

/// "FlashKDA graph 1.398, …", in milliseconds.
std::string times_of(const CudaCase& each) {
  std::ostringstream text;
  for (const PublishedTime& time : each.published) {
    text << (text.str().empty() ? "" : ", ") << time.peer
         << (time.mode == LaunchMode::graph ? " graph " : " eager ") << 1e3 * time.seconds;
  }
  return text.str();
}

TEST(Peers, HaveTheTimesOfTheKeptResults) {
  const CudaCase prefill = case_named(peers_forward("kda", "random"), "B1 T8192 H64");
  EXPECT_EQ(times_of(prefill),
            "flash-linear-attention eager 2.114, FlashKDA graph 1.191, cuDNN graph 0.556, cuLA eager 1.111");
  EXPECT_THAT(kept_results(),
              HasSubstr("B1 T8192 H64       random  1.191     0.556   2.114                   1.111\n"));
  EXPECT_EQ(times_of(case_named(peers_forward("gated_delta_rule", "random"), "B1 T8192 H16/64")),
            "flash-linear-attention eager 0.814, FlashQLA eager 0.397, FlashInfer eager 0.392");
  EXPECT_THAT(kept_results(), HasSubstr("B1 T8192 H16/64    0.397     0.392       0.814\n"));
  const CudaCase decode = case_named(peers_decode(), "decode N1 H32");
  EXPECT_EQ(times_of(decode), "flash-linear-attention graph 0.0111, flash-linear-attention eager 0.139");
  EXPECT_THAT(kept_results(), HasSubstr("decode N1 H32    0.0111                  0.139\n"));
  EXPECT_EQ(times_of(case_named(peers_backward("kda", "random"), "B4 T4096 H16")),
            "flash-linear-attention eager 5.78");
  EXPECT_THAT(kept_results(), HasSubstr("B4 T4096 H16       5.78\n"));
  EXPECT_EQ(times_of(case_named(peers_backward("gated_delta_rule", "random"), "B1 T8192 H16/32")),
            "FlashQLA eager 1.033");
}

/// A time that is kept and belongs to no case of the suite would never be shown.
TEST(Peers, EveryKeptTimeOfAPrefillHasACase) {
  std::size_t shown = 0, kept = 0;
  for (const char* gates : {"random", "slow"}) {
    for (const CudaCase& each : peers_forward("kda", gates)) shown += each.published.size();
  }
  std::istringstream lines(kept_results());
  for (std::string line; std::getline(lines, line);) {
    if (line.find("  random  ") == std::string::npos && line.find("  slow    ") == std::string::npos)
      continue;
    std::istringstream cells(line.substr(line.find("  ")));
    std::string gates;
    cells >> gates;
    for (std::string cell; cells >> cell;) kept += cell != "-";
  }
  EXPECT_EQ(shown, kept);
  EXPECT_GT(kept, 40u);
}

TEST(Peers, TimesAreThoseWithTheGatesThatAreMeasured) {
  EXPECT_EQ(times_of(case_named(peers_forward("kda", "slow"), "B1 T8192 H96")), "cuDNN graph 2.35");
  for (const CudaCase& each : peers_forward("kda", "strong"))
    EXPECT_THAT(each.published, IsEmpty()) << each.name;
  for (const CudaCase& each : peers_backward("kda", "slow"))
    EXPECT_THAT(each.published, IsEmpty()) << each.name;
}

TEST(Peers, WhatWasNotMeasuredHasNoTime) {
  EXPECT_EQ(times_of(case_named(peers_forward("kda", "random"), "4 x 2048 H12")), "");
  EXPECT_EQ(times_of(case_named(peers_forward("kda", "random"), "B1 T8192 H12")), "cuDNN graph 0.11");
  for (const CudaCase& each : peers_decode()) {
    EXPECT_EQ(each.published.empty(), each.state_dtype == DType::bf16) << each.name;
  }
}

TEST(Peers, ATableThatIsNotThereIsAnError) {
  const PeerColumn column[] = {{"nobody", "nobody", LaunchMode::eager}};
  EXPECT_THROW((void)published_times("KDA forward", {}, column), std::logic_error);
  EXPECT_THROW((void)published_times("no such title", {}, column), std::logic_error);
}

}  // namespace
}  // namespace fla::command
