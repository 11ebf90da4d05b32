#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"
#include "tools/cases/safetensors.h"

/// Calls without a token or without a sequence, from file to file.
namespace fla::testing {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kH = 2, kK = 8, kV = 4;

struct Empty {
  std::string name;
  std::int64_t B, T;
  std::vector<std::int64_t> starts{};  ///< of packed sequences
};

class EmptyCase : public ::testing::TestWithParam<Empty> {
 protected:
  EmptyCase() {
    const auto& [name, B, T, starts] = GetParam();
    const std::int64_t sequences = starts.empty() ? B : std::ssize(starts) - 1;
    for (const auto& [argument, size] : std::vector<std::pair<std::string, std::int64_t>>{
             {"q", kK}, {"k", kK}, {"v", kV}, {"g", kK}, {"expect.o", kV}})
      tensors_.push_back({argument, Tensor::zeros({B, T, kH, size}, DType::f32)});
    tensors_.push_back({"beta", Tensor::zeros({B, T, kH}, DType::f32)});
    states_ = Tensor::zeros({sequences, kH, kK, kV}, DType::f32);
    for (std::int64_t i = 0; i < states_.numel(); ++i) states_.as<float>()[i] = static_cast<float>(i);
    tensors_.push_back({"initial_state", states_});
    tensors_.push_back({"expect.final_state", states_});
    if (!starts.empty()) {
      const Tensor packed = Tensor::zeros({std::ssize(starts)}, DType::i64);
      std::memcpy(packed.data(), starts.data(), starts.size() * sizeof starts[0]);
      tensors_.push_back({"cu_seqlens", packed});
    }
    cases::write_safetensors(in_, tensors_, {{"op", "kda"}, {"output_final_state", "1"}});
  }

  const TemporaryFolder folder_;
  const std::string in_ = folder_ / "case", out_ = folder_ / "result";
  std::vector<cases::NamedTensor> tensors_;
  Tensor states_;
};

TEST_P(EmptyCase, ReturnsNoOutputsAndTheStatesAsTheyWere) {
  for (const char* function : {"chunk_kda", "fused_recurrent_kda"}) {
    const Outcome outcome = fla({"run", "kda", "--in", in_, "--out", out_, "--function", function});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const cases::Safetensors result = cases::Safetensors::open(out_);
    EXPECT_EQ(shape_text(result.read("o").shape()),
              shape_text(std::vector{GetParam().B, GetParam().T, kH, kV}));
    const Tensor states = result.read("final_state");
    ASSERT_EQ(shape_text(states.shape()), shape_text(states_.shape()));
    EXPECT_EQ(std::memcmp(states.data(), states_.data(), static_cast<std::size_t>(states_.numel()) * 4), 0);
  }
}

TEST_P(EmptyCase, PassesItsCheckOnEveryBackend) {
  const Outcome outcome = fla({"check", in_, "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream stream(outcome.out);
  int rows = 0;
  for (std::string line; std::getline(stream, line); ++rows) {
    const Json row = Json::parse(line);
    EXPECT_EQ(row.at("ok"), true) << row;
    EXPECT_EQ(row.at("errors").at("final_state"), 0.0) << row;
  }
  EXPECT_GE(rows, 2) << "the original kernel, by both functions";
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmptyCase,
                         ::testing::Values(Empty{"NoTokens", 3, 0}, Empty{"NoSequences", 0, 5},
                                           Empty{"Nothing", 0, 0},
                                           Empty{"PackedWithoutTokens", 1, 0, {0, 0, 0}}),
                         [](const auto& empty) { return empty.param.name; });

}  // namespace
}  // namespace fla::testing
