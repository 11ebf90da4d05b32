#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/absent_device.h"
#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"

namespace fla::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using Json = nlohmann::json;

std::vector<std::string> small_run(std::vector<std::string> more) {
  std::vector<std::string> words{"bench",  "kda", "--shape",   "B=1,T=20,H=2,HV=4,K=16,V=8",
                                 "--reps", "2",   "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(BenchCommand, PrintsTheContractsFields) {
  const Outcome outcome = fla(small_run({"--json", "--threads", "1,2", "--dtype", "f32,bf16"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_TRUE(json.at("machine").is_object());
  EXPECT_TRUE(json.at("commit").is_string());
  bool original = false;
  for (const Json& row : json.at("rows")) {
    EXPECT_EQ(row.at("op"), "kda");
    EXPECT_EQ(row.at("function"), "chunk_kda");
    EXPECT_EQ(row.at("device"), "cpu");
    EXPECT_EQ(row.at("mode"), "eager");
    EXPECT_TRUE(row.at("case").is_string());
    EXPECT_TRUE(row.at("threads").is_number_integer());
    EXPECT_EQ(row.at("shape"), Json({{"B", 1}, {"T", 20}, {"H", 2}, {"HV", 4}, {"K", 16}, {"V", 8}}));
    for (const char* field : {"median_s", "min_s", "ns_per_token_head", "floor_s", "copy_bytes_per_s",
                              "fma_operations_per_s", "arithmetic_share", "copy_share"}) {
      EXPECT_GT(row.at(field).get<double>(), 0) << field;
    }
    const double tolerance = row.at("dtype") == "f32" ? 2e-5 : 8e-3;
    EXPECT_LE(row.at("error_o").get<double>(), tolerance);
    EXPECT_LE(row.at("error_state").get<double>(), tolerance);
    original = original || row.at("backend") == "original";
  }
  EXPECT_TRUE(original);
}

TEST(BenchCommand, TakesEveryOp) {
  for (const char* op : {"gated_delta_rule", "delta_rule", "gla", "simple_gla", "retention", "lightning_attn",
                         "linear_attn", "dplr_delta_rule"}) {
    std::vector<std::string> words = small_run({"--json"});
    words[1] = op;
    const Outcome outcome = fla(words);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json rows = Json::parse(outcome.out).at("rows");
    EXPECT_FALSE(rows.empty());
    for (const Json& row : rows) {
      EXPECT_EQ(row.at("op"), op);
      EXPECT_EQ(row.at("function"), "chunk_" + std::string(op));
      EXPECT_LE(row.at("error_o").get<double>(), 2e-5) << op << " on " << row.at("backend");
      EXPECT_LE(row.at("error_state").get<double>(), 2e-5) << op << " on " << row.at("backend");
    }
  }
}

TEST(BenchCommand, TimesGradientsWithBackward) {
  const Outcome outcome = fla(small_run({"--json", "--backward"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json row = Json::parse(outcome.out).at("rows").back();
  EXPECT_EQ(row.at("function"), "chunk_kda_backward");
  EXPECT_EQ(row.at("backend"), "original");
  EXPECT_EQ(row.at("error_o"), 0.0);
  EXPECT_GT(row.at("median_s"), 0.0);
}

TEST(BenchCommand, NamesTheOpsItKnows) {
  const Outcome outcome = fla({"bench", "nothing"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("op: expected one of kda, gated_delta_rule, "));
}

TEST(BenchCommand, HasTheSuiteOfThoseCallsThatPeersHaveTimesOf) {
  const auto refusal_of = [](std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    words.insert(words.end(), {"--suite", "peers", "--device", "cuda:99"});
    const Outcome outcome = fla(words);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  const std::string refusal =
      "fla: suite: expected kda or gated_delta_rule, which peers have published times of, got gla\n";
  EXPECT_EQ(refusal_of({"gla"}), refusal);
  EXPECT_EQ(refusal_of({"gla", "--backward"}), refusal);
  EXPECT_EQ(refusal_of({"kda", "--backward", "--case", "prefill,decode"}),
            "fla: case: expected prefill, whose gradients peers have published times of, got decode\n");
  for (const char* op : {"kda", "gated_delta_rule"}) {
    EXPECT_EQ(refusal_of({op}), "fla: device: " + absence_of_cuda_99() + "\n");
    EXPECT_EQ(refusal_of({op, "--backward"}), "fla: device: " + absence_of_cuda_99() + "\n");
  }
}

TEST(BenchCommand, ShowsNoProgressWithoutATerminal) { EXPECT_EQ(fla(small_run({})).err, ""); }

TEST(BenchCommand, ShowsProgressOnATerminal) {
  if (!has_terminals()) GTEST_SKIP() << "no terminal can be opened here: there is no /dev/pts";
  EXPECT_THAT(fla(small_run({}), {.variables = {}, .terminal = true}).err, HasSubstr(" % "));
}

TEST(BenchCommand, PrintsBothShares) {
  const Outcome outcome = fla(small_run({}));
  EXPECT_THAT(outcome.out, HasSubstr("arithmetic"));
  EXPECT_THAT(outcome.out, HasSubstr("copy"));
  EXPECT_THAT(outcome.out, HasSubstr("original"));
}

TEST(BenchCommand, MeasuresTheBackendItIsToldAlone) {
  const Outcome outcome = fla(small_run({"--backend", "original", "--json"}));
  const Json rows = Json::parse(outcome.out).at("rows");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("backend"), "original");
}

TEST(BenchCommand, WritesAPageThatNeedsNoNetwork) {
  const TemporaryFolder folder;
  const Outcome outcome = fla(small_run({"--html", folder / "page.html"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(folder.contents(), ElementsAre("page.html"));
  const std::string page = read_bytes(folder / "page.html");
  EXPECT_THAT(page, HasSubstr("\"backend\":\"original\""));
  EXPECT_THAT(page,
              ContainsRegex("\"date\":\"20[0-9][0-9]-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9] UTC\""));
  EXPECT_THAT(page, ContainsRegex("\"command\":\"[^\"]*fla bench kda [^\"]*--html [^\"]*page.html"));
  EXPECT_THAT(page, HasSubstr("<meta name=\"viewport\" content=\"width=device-width"));
  EXPECT_THAT(page, HasSubstr("matchMedia('(max-width: 640px)')"));
  for (const char* reference : {"http:", "https:", "//cdn", "src=", "href=", "@import", "url(", "fetch("}) {
    EXPECT_THAT(page, Not(HasSubstr(reference)));
  }
}

TEST(BenchCommand, WritesNoPageForABadCall) {
  const TemporaryFolder folder;
  const Outcome outcome = fla(small_run({"--html", folder / "page.html", "--option", "scale=nan"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(folder.contents(), IsEmpty());
}

TEST(BenchCommand, PrintsTheCommandAndTheCommit) {
  const Outcome outcome = fla(small_run({}));
  EXPECT_THAT(outcome.out, MatchesRegex("\\$ [^\n]*fla bench kda --shape B=1,T=20,[^\n]*\n(.|\n)*"));
  EXPECT_THAT(Json::parse(fla(small_run({"--json"})).out).at("command").get<std::string>(),
              HasSubstr("bench kda --shape"));
}

TEST(BenchCommand, MeasuresNothingOnADeviceThatIsNotThere) {
  const TemporaryFolder folder;
  const Outcome outcome =
      fla({"bench", "kda", "--device", "cuda:99", "--suite", "peers", "--html", folder / "page.html"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "fla: device: " + absence_of_cuda_99() + "\n");
  EXPECT_THAT(folder.contents(), IsEmpty());
}

TEST(BenchCommand, TellsTheOptionsOfDevicesApart) {
  EXPECT_EQ(fla({"bench", "kda", "--suite", "peers"}).err, "fla: suite: is for --device cuda\n");
  EXPECT_EQ(fla(small_run({"--state-dtype", "bf16"})).err, "fla: state-dtype: is for --device cuda\n");
}

}  // namespace
}  // namespace fla::testing
