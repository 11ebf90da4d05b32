#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"

namespace fla::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class BadUsage : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(BadUsage, EndsWithOneLineAndCode2) {
  const Outcome outcome = fla(GetParam());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, MatchesRegex("fla: [^\n]+\n"));
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadUsage,
    ::testing::Values(
        std::vector<std::string>{}, std::vector<std::string>{"dance"},
        std::vector<std::string>{"ops", "--loud"}, std::vector<std::string>{"explain", "kda"},
        std::vector<std::string>{"explain"},
        std::vector<std::string>{"explain", "nothing", "--shape", "T=1,H=1,K=1"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=many"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=8,Q=3"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=8,T=3"},
        std::vector<std::string>{"explain", "kda", "--shape", "B=1099511627776,T=1099511627776,H=1,K=8"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=300"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=8", "--dtype", "f7"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=8", "--device", "abacus"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=8", "--function", "fly"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=8", "--option", "colour=red"},
        std::vector<std::string>{"explain", "lightning_attn", "--shape", "T=1,H=1,K=8", "--option",
                                 "num_layers=2.5"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=8", "--with", "hope"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=8", "--in", "x"},
        std::vector<std::string>{"run", "kda", "--in", "missing"},
        std::vector<std::string>{"run", "kda", "--in", "missing", "--out", "/no/such/folder/x"},
        std::vector<std::string>{"check"}, std::vector<std::string>{"check", "missing"},
        std::vector<std::string>{"bench", "nothing"},
        std::vector<std::string>{"bench", "kda", "--threads", "0"},
        std::vector<std::string>{"bench", "kda", "--device", "cuda:99"},
        std::vector<std::string>{"bench", "kda", "--device", "abacus"},
        std::vector<std::string>{"bench", "kda", "--suite", "strangers"},
        std::vector<std::string>{"bench", "kda", "--suite", "peers", "--shape", "T=1,H=1,K=8"},
        std::vector<std::string>{"bench", "kda", "--state-dtype", "f16"},
        std::vector<std::string>{"check", "missing", "--device", "abacus"},
        std::vector<std::string>{"conformance", "--device", "cuda:99"},
        std::vector<std::string>{"explain", "kda", "--shape", "T=1,H=1,K=8", "--with", "cu_seqlens"},
        std::vector<std::string>{"bench", "kda", "--gates", "iron"},
        std::vector<std::string>{"bench", "kda", "--case", "prefill", "--shape", "T=1,H=1,K=8"},
        std::vector<std::string>{"bench", "kda", "--html", "/no/such/folder/x"},
        std::vector<std::string>{"bench", "kda", "--seconds", "nan"},
        std::vector<std::string>{"docs", "--section", "poems"}));

/// A script's variable that is not set: nothing runs instead of something else.
TEST(Usage, AnEmptyValueIsRefusedByName) {
  const std::string in = golden("kda_decode_f32");
  const TemporaryFolder folder;
  for (const auto& [option, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"op", {"run", "", "--in", in, "--out", folder / "x"}},
           {"--in", {"run", "kda", "--in", "", "--out", folder / "x"}},
           {"--out", {"run", "kda", "--in", in, "--out", ""}},
           {"--backend", {"run", "kda", "--in", in, "--out", folder / "x", "--backend", ""}},
           {"--function", {"run", "kda", "--in", in, "--out", folder / "x", "--function", ""}},
           {"files", {"check", in, ""}},
           {"--html", {"bench", "kda", "--shape", "T=2,H=1,K=8", "--html", ""}},
           {"--plugin", {"conformance", "--plugin", ""}},
           {"file", {"config", "check", ""}}}) {
    const Outcome outcome = fla(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "fla: " + option + ": expected a value, got an empty one (see fla --help)\n");
    EXPECT_EQ(folder.contents().size(), 0u);
  }
}

TEST(Usage, HelpIsNoError) {
  for (const char* command : {"ops", "explain", "run", "check", "bench", "env", "docs"}) {
    const Outcome outcome = fla({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_EQ(outcome.err, "") << command;
    EXPECT_THAT(outcome.out, HasSubstr("--help")) << command;
  }
}

TEST(Usage, AnUnknownCommandIsNamedWithTheNearestOne) {
  EXPECT_EQ(fla({"explian", "kda"}).err,
            "fla: there is no command 'explian'; did you mean 'explain'? (see fla --help)\n");
  EXPECT_EQ(
      fla({"bogus"}).err,
      "fla: there is no command 'bogus' (known: ops, explain, run, check, bench, config, conformance, env, "
      "plugins, docs) (see fla --help)\n");
  EXPECT_EQ(fla({"config", "chek", "x"}).err,
            "fla: there is no command 'chek'; did you mean 'check'? (see fla --help)\n");
  EXPECT_EQ(fla({"bogus"}).code, 2);
}

TEST(Usage, HelpSaysHowABackendIsChosen) {
  const std::string help = fla({"--help"}).out;
  EXPECT_THAT(help, HasSubstr("the first backend, in ascending priority, that takes it"));
  EXPECT_THAT(help, ::testing::Not(HasSubstr("fastest")));
}

TEST(Usage, AWrongSettingIsBadInput) {
  const Outcome outcome = fla({"ops"}, {.variables = {{"FLA_BACKEND_ORDER", "kda=no_such_backend"}}});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, MatchesRegex("fla: [^\n]*FLA_BACKEND_ORDER[^\n]*\n"));
}

}  // namespace
}  // namespace fla::testing
