#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"

/// Names of files and values of variables are bytes. What is no UTF-8 in them prints as U+FFFD in JSON.
namespace fla::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

constexpr const char* kBytes = "caf\xe9";             // Latin-1
constexpr const char* kReplaced = "caf\xef\xbf\xbd";  // U+FFFD

class NotUtf8 : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string name_ = folder_ / kBytes, replaced_ = folder_ / kReplaced;
  const std::string case_ = name_ + ".safetensors";

  void SetUp() override { std::filesystem::copy_file(golden("kda_decode_f32"), case_); }

  /// The lines that the command printed, each of which must be JSON.
  static std::vector<Json> lines_of(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<Json> list;
    std::istringstream stream(outcome.out);
    for (std::string line; std::getline(stream, line);) list.push_back(Json::parse(line));
    EXPECT_FALSE(list.empty());
    return list;
  }
};

TEST_F(NotUtf8, CaseFilesAreChecked) {
  for (const Json& row : lines_of(fla({"check", case_, "--json"})))
    EXPECT_EQ(row.at("file"), replaced_ + ".safetensors");
  EXPECT_THAT(fla({"check", case_}).out, HasSubstr(case_));
}

TEST_F(NotUtf8, CaseFilesAreExplained) {
  EXPECT_EQ(lines_of(fla({"explain", "kda", "--in", case_, "--json"})).front().at("op"), "kda");
}

TEST_F(NotUtf8, ResultsAreWritten) {
  EXPECT_EQ(lines_of(fla({"run", "kda", "--in", case_, "--out", name_, "--json"})).front().at("out"),
            replaced_);
  EXPECT_TRUE(std::filesystem::exists(name_));
}

TEST_F(NotUtf8, PagesAreWritten) {
  const std::vector<std::string> words{"bench",  "kda",    "--shape", "T=2,H=1,K=8", "--threads",
                                       "1",      "--reps", "1",       "--seconds",   "0",
                                       "--html", name_,    "--json"};
  EXPECT_THAT(lines_of(fla(words)).front().at("command").get<std::string>(), HasSubstr(replaced_));
  EXPECT_THAT(read_bytes(name_), HasSubstr(replaced_));
}

TEST_F(NotUtf8, VariablesAreListed) {
  std::filesystem::create_directory(name_);
  std::filesystem::copy_file(case_, name_ + "/no_plugin.so");
  const Setting setting{.variables = {{"FLA_PLUGIN_PATH", name_}}};
  EXPECT_THAT(lines_of(fla({"env", "--json"}, setting)).front().dump(), HasSubstr(replaced_));
  EXPECT_EQ(lines_of(fla({"plugins", "--json"}, setting)).size(), 1u);
  EXPECT_EQ(lines_of(fla({"ops", "--json"}, setting)).size(), 1u);
}

TEST_F(NotUtf8, WordsAreRefusedInOneLine) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"check", name_, "--json"},
           {"run", kBytes, "--in", case_, "--out", name_},
           {"run", "kda", "--in", case_, "--out", name_, "--backend", kBytes},
           {"run", "kda", "--in", case_, "--out", name_, "--function", kBytes},
           {"explain", "kda", "--shape", kBytes, "--json"},
           {"explain", "kda", "--shape", "T=1,H=1,K=8", "--option", kBytes, "--json"},
           {kBytes}}) {
    const Outcome outcome = fla(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, MatchesRegex("fla: [^\n]+\n"));
    EXPECT_FALSE(std::filesystem::exists(name_));
  }
}

}  // namespace
}  // namespace fla::testing
