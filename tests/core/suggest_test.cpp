#include "fla/core/suggest.h"

#include <gtest/gtest.h>

#include "fla/dispatch/settings/unknown_variables.h"

namespace {

using fla::suggestion;
using fla::dispatch::hints_about;

TEST(Suggestion, IsTheClosestName) {
  EXPECT_EQ(suggestion("cpu_smid", {"cuda_decode", "cpu_simd", "flash_kda"}), "; did you mean 'cpu_simd'?");
  EXPECT_EQ(suggestion("falsh_kda", {"cpu_simd", "flash_kda"}), "; did you mean 'flash_kda'?");
  EXPECT_EQ(suggestion("kd", {"gla", "kda"}), "; did you mean 'kda'?");
}

TEST(Suggestion, IsTheFirstOfTwoThatAreAsClose) {
  EXPECT_EQ(suggestion("kdx", {"kda", "kdb"}), "; did you mean 'kda'?");
}

TEST(Suggestion, LooksPastUpperCase) {
  EXPECT_EQ(suggestion("DTYPE", {"device", "dtype"}), "; did you mean 'dtype'?");
  EXPECT_EQ(suggestion("t", {"B", "T"}), "; did you mean 'T'?");
}

TEST(Suggestion, ListsWhatIsKnownWhenNothingIsClose) {
  EXPECT_EQ(suggestion("tilelang", {"cpu_simd", "flash_kda"}), " (known: cpu_simd, flash_kda)");
  EXPECT_EQ(suggestion("x", {"B", "T"}), " (known: B, T)");
  EXPECT_EQ(suggestion(std::string(100000, 'a'), {"b"}), " (known: b)");
}

TEST(Suggestion, IsSilentWhenNothingIsKnown) { EXPECT_EQ(suggestion("x", {}), ""); }

TEST(UnknownVariables, AreHintedAtWhenTheyAreCloseToAKnownOne) {
  const std::vector<std::string> known{"FLA_CPU_SIMD", "FLA_NVTX", "FLA_NUM_THREADS", ""};
  EXPECT_EQ(
      hints_about({{"FLA_CPU_SIMDD", "0"}, {"FLA_CPU_SIMD", "1"}, {"FLA_USE_TMA", "1"}, {"FLA_ACME", "1"}},
                  known),
      (std::map<std::string, std::string>{
          {"FLA_CPU_SIMDD",
           "FLA_CPU_SIMDD is set, which nothing that is loaded reads; did you mean 'FLA_CPU_SIMD'?"}}));
}

}  // namespace
