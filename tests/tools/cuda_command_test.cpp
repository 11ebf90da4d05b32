#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "fla/core/cuda_devices.h"
#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"

namespace fla::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

/// The command on a GPU.
class CudaCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_cuda_device().empty()) GTEST_SKIP() << "not run: " << why_no_cuda_device();
  }
};

std::vector<Json> lines(const std::string& text) {
  std::vector<Json> list;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) list.push_back(Json::parse(line));
  return list;
}

TEST_F(CudaCommand, ListsTheDevice) {
  const Json devices = Json::parse(fla({"ops", "--json"}).out).at("devices");
  ASSERT_GE(devices.size(), 2u);
  EXPECT_EQ(devices[1].at("name"), "cuda:0");
  EXPECT_EQ(devices[1].at("available"), true);
  EXPECT_THAT(devices[1].at("facts").get<std::string>(), HasSubstr(cuda_devices().front().name));
}

TEST_F(CudaCommand, ExplainsWithoutANote) {
  const Outcome outcome = fla({"explain", "kda", "--shape", "T=64,H=2,K=64", "--device", "cuda", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(Json::parse(outcome.out).contains("note"));
}

TEST_F(CudaCommand, ChecksEveryGoldenCase) {
  std::vector<std::string> words{"check", "--device", "cuda", "--json"};
  for (const auto& entry : std::filesystem::directory_iterator(FLA_GOLDEN_DIR)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("kda") && name.ends_with(".safetensors")) words.push_back(entry.path().string());
  }
  ASSERT_GT(words.size(), 4u);
  const Outcome outcome = fla(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::set<std::string> backends;
  for (const Json& row : lines(outcome.out)) {
    EXPECT_EQ(row.at("ok"), true) << row;
    EXPECT_EQ(row.at("device"), "cuda:0");
    backends.insert(row.at("backend"));
  }
  EXPECT_TRUE(backends.contains("original"));
  EXPECT_FALSE(backends.contains("cpu_simd"));
}

TEST_F(CudaCommand, WritesTheSameBitsTwice) {
  const TemporaryFolder folder;
  for (const char* name : {"kda_decode_f32", "kda_varlen_gva_softplus_bf16"}) {
    for (const char* file : {"first", "second"}) {
      const Outcome outcome =
          fla({"run", "kda", "--in", golden(name), "--out", folder / file, "--device", "cuda:0", "--json"});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_EQ(Json::parse(outcome.out).at("device"), "cuda:0");
    }
    EXPECT_EQ(read_bytes(folder / "first"), read_bytes(folder / "second")) << name;
  }
}

TEST_F(CudaCommand, SaysThatTheLastDeviceIsNotThere) {
  const std::string count = std::to_string(cuda_devices().size());
  const Outcome outcome = fla({"bench", "kda", "--device", "cuda:" + count});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("cuda:" + count + " is not there: this machine has " + count));
}

TEST_F(CudaCommand, BenchPrintsTheContractsFields) {
  const TemporaryFolder folder;
  const Outcome outcome = fla({"bench", "kda", "--device", "cuda", "--shape", "T=100,N=3,H=2,HV=4,K=64,V=32",
                               "--shape", "B=3,T=1,H=2,K=128", "--state-dtype", "f32,bf16", "--reps", "3",
                               "--dtype", "bf16,f32", "--json", "--html", folder / "page.html"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_TRUE(json.at("commit").is_string());
  EXPECT_EQ(json.at("machine").at("gpu"), cuda_devices().front().name);
  for (const char* field : {"driver", "cuda", "cuda_toolkit"}) {
    EXPECT_NE(json.at("machine").at(field), "") << field;
  }
  std::set<std::string> modes, functions, states;
  for (const Json& row : json.at("rows")) {
    ASSERT_FALSE(row.contains("failure")) << row;
    EXPECT_EQ(row.at("op"), "kda");
    EXPECT_EQ(row.at("device"), "cuda:0");
    for (const char* field : {"median_s", "min_s", "ns_per_token_head", "floor_s", "copy_bytes_per_s",
                              "copy_share", "times_original"}) {
      EXPECT_GT(row.at(field).get<double>(), 0) << field;
    }
    EXPECT_EQ(row.at("repetitions"), 3);
    EXPECT_GE(row.at("workspace_bytes").get<std::int64_t>(), 0);
    const double rounding = row.at("state_dtype") == "bf16" || row.at("dtype") == "bf16" ? 4e-3 : 2e-5;
    EXPECT_LE(row.at("error_o").get<double>(), rounding) << row;
    EXPECT_LE(row.at("error_state").get<double>(), rounding) << row;
    modes.insert(row.at("mode"));
    functions.insert(row.at("function"));
    states.insert(row.at("state_dtype"));
  }
  EXPECT_EQ(modes, (std::set<std::string>{"eager", "graph"}));
  EXPECT_EQ(functions, (std::set<std::string>{"chunk_kda", "fused_recurrent_kda"}));
  EXPECT_EQ(states, (std::set<std::string>{"f32", "bf16"}));
  EXPECT_THAT(read_bytes(folder / "page.html"), HasSubstr("\"mode\":\"graph\""));
}

TEST_F(CudaCommand, BenchTakesEveryKindOfData) {
  for (const char* data : {"random", "bound", "slow", "strong", "resets", "repeated_keys", "mixed"}) {
    const Outcome outcome = fla({"bench", "kda", "--device", "cuda", "--shape", "T=200,H=2,K=64", "--reps",
                                 "1", "--dtype", "f32", "--data", data, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json rows = Json::parse(outcome.out).at("rows");
    for (const Json& row : rows) {
      EXPECT_EQ(row.at("data"), data);
      EXPECT_LE(row.at("error_o").get<double>(), 2e-5) << row;
      EXPECT_LE(row.at("error_state").get<double>(), 2e-5) << row;
    }
  }
}

TEST_F(CudaCommand, BenchHasThePublishedTimesOfPeers) {
  const std::vector<std::string> words{
      "bench",  "kda", "--device",      "cuda", "--suite",  "peers",         "--case",    "decode",
      "--reps", "1",   "--state-dtype", "f32",  "--option", "state_v_first", "--backend", "original"};
  std::vector<std::string> with_json = words;
  with_json.emplace_back("--json");
  const Outcome outcome = fla(with_json);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::set<std::string> cases;
  const Json json = Json::parse(outcome.out);
  for (const Json& row : json.at("rows")) {
    cases.insert(row.at("case"));
    EXPECT_EQ(row.at("state_v_first"), true);
    EXPECT_EQ(row.at("state_in_place"), true);
    ASSERT_EQ(row.at("peers").size(), 1u) << row;
    EXPECT_EQ(row.at("peers")[0].at("name"), "flash-linear-attention");
    EXPECT_DOUBLE_EQ(row.at("peers")[0].at("times_faster").get<double>(),
                     row.at("peers")[0].at("published_s").get<double>() / row.at("median_s").get<double>());
  }
  EXPECT_EQ(cases, (std::set<std::string>{"decode N1 H32", "decode N8 H32", "decode N32 H32",
                                          "decode N128 H32", "decode N256 H64"}));
  EXPECT_THAT(fla(words).out, HasSubstr("The fastest backend of each case."));
}

TEST_F(CudaCommand, BenchHasThePublishedTimesOfPeersGradients) {
  const Outcome outcome = fla({"bench", "gated_delta_rule", "--device", "cuda", "--suite", "peers",
                               "--backward", "--reps", "1", "--backend", "original", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::set<std::string> cases;
  const Json json = Json::parse(outcome.out);
  for (const Json& row : json.at("rows")) {
    cases.insert(row.at("case"));
    EXPECT_EQ(row.at("function"), "chunk_gated_delta_rule_backward");
    EXPECT_LE(row.at("error_o").get<double>(), 1.5e-2) << row;
  }
  EXPECT_EQ(cases, (std::set<std::string>{"B1 T8192 H16/32", "B1 T8192 H2/8"}));
}

/// The forward calls before them do not change what the backward ones are given.
TEST_F(CudaCommand, BenchFindsTheGradientsOfSingleTokensRight) {
  const Outcome outcome = fla({"bench", "kda", "--device", "cuda", "--backward", "--shape",
                               "B=3,T=1,H=2,K=64", "--dtype", "f32", "--reps", "1", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  for (const Json& row : json.at("rows")) {
    EXPECT_LE(row.at("error_o").get<double>(), 1e-4) << row;
    EXPECT_EQ(row.at("state_in_place"), false);
  }
}

TEST_F(CudaCommand, BenchPrintsWhereItRan) {
  const Outcome outcome = fla({"bench", "kda", "--device", "cuda", "--shape", "B=2,T=1,H=2,K=128", "--reps",
                               "1", "--backend", "original"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* words : {"$ ", "bench kda --device cuda", "driver ", "CUDA ", "TB/s read and written"}) {
    EXPECT_THAT(outcome.out, HasSubstr(words));
  }
}

}  // namespace
}  // namespace fla::testing
