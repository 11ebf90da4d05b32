#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/tools/absent_device.h"
#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"
#include "tools/cases/case.h"
#include "tools/cases/safetensors.h"

namespace fla::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Json = nlohmann::json;

std::vector<Json> lines(const std::string& text) {
  std::vector<Json> list;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) list.push_back(Json::parse(line));
  return list;
}

/// The case with its expected o replaced.
std::string with_expected_o(const TemporaryFolder& folder, const Tensor& o) {
  const cases::Safetensors file = cases::Safetensors::open(golden("kda_decode_f32"));
  std::vector<cases::NamedTensor> tensors;
  for (const auto& entry : file.entries()) {
    tensors.push_back({entry.name, entry.name == "expect.o" ? o : file.read(entry.name)});
  }
  cases::write_safetensors(folder / "case.safetensors", tensors, file.metadata());
  return folder / "case.safetensors";
}

TEST(CheckCommand, PassesOnTheOriginalKernelAndEveryBackendThatAccepts) {
  const Outcome outcome = fla({"check", golden("kda_decode_f32"), golden("kda_hard_resets_f32"), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::set<std::string> backends, functions;
  for (const Json& row : lines(outcome.out)) {
    EXPECT_EQ(row.at("ok"), true) << row;
    EXPECT_TRUE(row.at("file").is_string());
    EXPECT_LE(row.at("errors").at("o").get<double>(), 2e-5);
    EXPECT_LE(row.at("errors").at("final_state").get<double>(), 2e-5);
    backends.insert(row.at("backend"));
    functions.insert(row.at("function"));
  }
  std::set<std::string> expected{"original"};
  for (const char* file : {"kda_decode_f32", "kda_hard_resets_f32"}) {
    const cases::Case call = cases::read_case(golden(file));
    for (const std::string_view function : call.op->functions) {
      for (const Explanation::Row& row : call.op->explain(function, call.args.get()).rows) {
        if (row.state == "selected" || row.state == "accepted") expected.insert(row.name);
      }
    }
  }
  EXPECT_EQ(backends, expected);
  EXPECT_EQ(functions, (std::set<std::string>{"chunk_kda", "fused_recurrent_kda"}));
}

TEST(CheckCommand, EndsWithCode1WhenOneIsOutOfTolerance) {
  const TemporaryFolder folder;
  const std::string file = with_expected_o(folder, Tensor::zeros({3, 1, 2, 64}, DType::f32));
  const Outcome outcome = fla({"check", file, "--json"});
  EXPECT_EQ(outcome.code, 1);
  for (const Json& row : lines(outcome.out)) EXPECT_EQ(row.at("ok"), false);
  EXPECT_THAT(fla({"check", file}).out, HasSubstr("OUT OF TOLERANCE"));
}

TEST(CheckCommand, ChecksTheBackendItIsToldAlone) {
  const Outcome outcome = fla({"check", golden("kda_decode_f32"), "--backend", "original", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const Json& row : lines(outcome.out)) EXPECT_EQ(row.at("backend"), "original");
}

TEST(CheckCommand, SaysThatGradientsAreNotCompared) {
  const Outcome outcome = fla({"check", golden("kda_f32_grad")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("gradients are not compared without --backward"));
}

TEST(CheckCommand, ComparesGradientsWithBackward) {
  const Outcome outcome = fla({"check", "--backward", "--json", golden("kda_f32_grad")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  const Json row = Json::parse(outcome.out.substr(0, outcome.out.find('\n')));
  EXPECT_EQ(row.at("function"), "chunk_kda_backward");
  EXPECT_EQ(row.at("backend"), "original");
  EXPECT_EQ(row.at("tolerance"), 1e-4);
  EXPECT_LE(row.at("errors").at("dg"), 1e-6);
  EXPECT_EQ(row.at("errors").size(), 6u);
  EXPECT_THAT(fla({"check", "--backward", golden("kda_f32_grad")}).out, HasSubstr("chunk_kda_backward"));
}

TEST(CheckCommand, NeedsGradientsToCompareBackward) {
  const Outcome outcome = fla({"check", "--backward", golden("kda_decode_f32")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("expected expect.d* tensors to compare with, got none"));
}

TEST(CheckCommand, RefusesAnExpectationOfAnotherShape) {
  const TemporaryFolder folder;
  const Outcome outcome = fla({"check", with_expected_o(folder, Tensor::zeros({3, 2, 64}, DType::f32))});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, MatchesRegex("fla: [^\n]*expect.o[^\n]*shape[^\n]*\n"));
}

TEST(CheckCommand, TakesTheOpsOfALayerAroundItsRecurrence) {
  const TemporaryFolder folder;
  const Tensor x = Tensor::empty({1, 3, 2}, DType::f32), weight = Tensor::empty({2, 2}, DType::f32),
               o = Tensor::empty({1, 3, 2}, DType::f32), state = Tensor::empty({1, 2, 1}, DType::f32);
  std::copy_n(std::array<float, 6>{1, 10, 2, 20, 3, 30}.data(), 6, x.as<float>());
  std::copy_n(std::array<float, 4>{100, 1, 0, 2}.data(), 4, weight.as<float>());
  std::copy_n(std::array<float, 6>{1, 20, 102, 40, 203, 60}.data(), 6, o.as<float>());
  std::copy_n(std::array<float, 2>{3, 30}.data(), 2, state.as<float>());
  const std::vector<cases::NamedTensor> tensors{
      {"x", x}, {"weight", weight}, {"expect.o", o}, {"expect.final_state", state}};
  cases::write_safetensors(folder / "conv", tensors, {{"op", "short_conv"}});
  const Outcome outcome = fla({"check", folder / "conv", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> rows = lines(outcome.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("function"), "short_conv");
  EXPECT_EQ(rows[0].at("backend"), "original");
  EXPECT_EQ(rows[0].at("errors"), Json({{"final_state", 0.0}, {"o", 0.0}}));

  const Outcome ran =
      fla({"run", "short_conv", "--in", folder / "conv", "--out", folder / "result", "--option", "use_silu"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Tensor written = cases::Safetensors::open(folder / "result").read("o");
  EXPECT_NEAR(written.as<float>()[0], 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(CheckCommand, RefusesAFileWithNothingToCompare) {
  const TemporaryFolder folder;
  cases::write_safetensors(folder / "x", {}, {{"op", "kda"}});
  const Outcome outcome = fla({"check", folder / "x"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, MatchesRegex("fla: [^\n]+\n"));
}

TEST(CheckCommand, ChecksTheOthersBesidesABadFile) {
  const Outcome outcome = fla({"check", "missing", golden("kda_decode_f32"), "--json"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_FALSE(lines(outcome.out).empty());
}

TEST(CheckCommand, SaysWhereItRan) {
  const Outcome outcome = fla({"check", golden("kda_decode_f32"), "--device", "cpu", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const Json& row : lines(outcome.out)) EXPECT_EQ(row.at("device"), "cpu");
}

TEST(CheckCommand, ChecksNothingOnADeviceThatIsNotThere) {
  const Outcome outcome = fla({"check", golden("kda_decode_f32"), "--device", "cuda:99"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "fla: device: " + absence_of_cuda_99() + "\n");
}

}  // namespace
}  // namespace fla::testing
