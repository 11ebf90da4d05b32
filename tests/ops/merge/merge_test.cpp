#include "fla/ops/merge/merge.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/observe/explain.h"
#include "tests/core/error_text.h"
#include "tests/ops/merge/merge_call.h"
#include "tools/cases/accuracy.h"

namespace {

using fla::DType;
using fla::MergeArgs;
using fla::Tensor;
using fla::TensorView;
using fla_test::MergeCall;

TEST(Merge, AgreesWithFloat64) {
  for (const bool diagonal : {false, true}) {
    for (const bool state : {false, true}) {
      for (const std::int64_t C : {0, 1, 5}) {
        const MergeCall call({.C = C, .diagonal = diagonal, .state = state});
        for (auto* run : {&fla::merge, &fla::original::merge})
          EXPECT_LE(fla::cases::relative_error(run(call.args).final_state, call.reference()), 2e-6);
      }
    }
  }
  for (const std::int64_t K : {1, 64, 256}) {
    const MergeCall call({.K = K, .V = 257 - K});
    EXPECT_LE(fla::cases::relative_error(fla::merge(call.args).final_state, call.reference()), 2e-6);
  }
}

TEST(Merge, SeveralCallsHaveTheBitsOfOne) {
  const MergeCall call({.C = 5});
  const Tensor whole = fla::merge(call.args).final_state;
  Tensor state = Tensor::over(call.args.initial_state);
  for (const auto& [first, count] : {std::pair{0, 2}, {2, 0}, {2, 1}, {3, 2}}) {
    MergeArgs part = call.args;
    part.R = call.args.R.slice(0, first, count);
    part.P = call.args.P.slice(0, first, count);
    part.initial_state = state;
    state = fla::merge(part).final_state;
  }
  EXPECT_EQ(std::memcmp(state.data(), whole.data(), static_cast<std::size_t>(whole.numel()) * 4), 0);
}

TEST(Merge, TakesSlicesOfOneBufferAndStatesOfEitherLayout) {
  const MergeCall call({});
  const Tensor whole = fla::merge(call.args).final_state;
  const auto [C, N, HV, K, V, diagonal, state] = call.of;
  const Tensor buffer = Tensor::zeros({C, N, HV, K, K + V}, DType::f32);
  const TensorView all = buffer;
  for (std::int64_t row = 0; row < C * N * HV * K; ++row) {
    std::memcpy(buffer.as<float>() + row * (K + V), call.args.P.as<float>() + row * K,
                static_cast<std::size_t>(K) * 4);
    std::memcpy(buffer.as<float>() + row * (K + V) + K, call.args.R.as<float>() + row * V,
                static_cast<std::size_t>(V) * 4);
  }
  MergeArgs args = call.args;
  args.P = all.slice(4, 0, K);
  args.R = all.slice(4, K, V);
  const auto expect_same = [&](const Tensor& found) {
    EXPECT_EQ(std::memcmp(found.data(), whole.data(), static_cast<std::size_t>(whole.numel()) * 4), 0);
  };
  expect_same(fla::merge(args).final_state);
  const auto turned = [](const TensorView& x) {
    std::vector<std::int64_t> shape(x.shape().begin(), x.shape().end());
    std::vector<std::int64_t> strides(x.strides().begin(), x.strides().end());
    std::swap(shape.end()[-1], shape.end()[-2]);
    std::swap(strides.end()[-1], strides.end()[-2]);
    return TensorView(x.data(), DType::f32, shape, strides);
  };
  args.R = turned(args.R);
  args.initial_state = turned(args.initial_state);
  args.state_v_first = true;
  const Tensor memory = Tensor::zeros(whole.shape(), DType::f32);
  args.final_state = turned(memory);
  (void)fla::merge(args);
  expect_same(memory);
}

TEST(Merge, UpdatesAStateInItsPlace) {
  MergeCall call({});
  const Tensor whole = fla::merge(call.args).final_state;
  call.args.final_state = call.args.initial_state;
  const Tensor result = fla::merge(call.args).final_state;
  EXPECT_EQ(result.data(), call.args.initial_state.data());
  EXPECT_EQ(std::memcmp(result.data(), whole.data(), static_cast<std::size_t>(whole.numel()) * 4), 0);
}

TEST(Merge, OfNoSequencesIsNone) { EXPECT_EQ(fla::merge(MergeCall({.N = 0}).args).final_state.numel(), 0); }

std::string answer(const MergeArgs& args) {
  const auto said = [&](auto* run) {
    return fla_test::error_text<fla::InvalidArgument>([&] { (void)run(args); });
  };
  const std::string text = said(&fla::merge), name = "merge: ";
  EXPECT_EQ(said(&fla::original::merge), text);
  return text.starts_with(name) ? text.substr(name.size()) : "without its name: " + text;
}

TEST(MergeRefuses, BadInput) {
  const MergeCall call({.C = 2, .N = 1, .HV = 2, .K = 3, .V = 5});
  MergeArgs wrong{};
  EXPECT_EQ(answer(wrong), "R: expected a tensor of shape [C, N, HV, K, V], got none");
  wrong = call.args, wrong.P = {};
  EXPECT_EQ(answer(wrong), "P: expected a tensor of shape [C=2, N=1, HV=2, K=3, K=3], got none");
  const Tensor other = Tensor::zeros({2, 1, 2, 3, 4}, DType::f32),
               half = Tensor::zeros({2, 1, 2, 3, 5}, DType::f16),
               wide = Tensor::zeros({1, 1, 1, 257, 1}, DType::f32),
               none = Tensor::zeros({1, 1, 1, 1, 0}, DType::f32),
               one = Tensor::zeros({1, 1, 1, 1}, DType::f32),
               ones = Tensor::zeros({1, 1, 1, 257}, DType::f32);
  wrong = call.args, wrong.P = other;
  EXPECT_EQ(answer(wrong), "P: expected shape [C=2, N=1, HV=2, K=3, K=3], got [2, 1, 2, 3, 4]");
  wrong = call.args, wrong.R = half;
  EXPECT_EQ(answer(wrong), "R: expected dtype f32, got f16");
  EXPECT_EQ(answer({.R = wide, .P = ones}), "R: expected K from 1 to 256, got 257");
  EXPECT_EQ(answer({.R = none, .P = one}), "R: expected V from 1 to 256, got 0");
  wrong = call.args, wrong.initial_state = other;
  EXPECT_EQ(answer(wrong), "initial_state: expected shape [N=1, HV=2, K=3, V=5], got [2, 1, 2, 3, 4]");
  wrong = call.args, wrong.final_state = call.args.R.slice(0, 0, 1).slice(1, 0, 1);
  EXPECT_EQ(answer(wrong), "final_state: expected shape [N=1, HV=2, K=3, V=5], got [1, 1, 2, 3, 5]");
  const TensorView first(call.args.R.data(), DType::f32, {1, 2, 3, 5});
  wrong = call.args, wrong.final_state = first;
  EXPECT_EQ(answer(wrong), "final_state: expected memory of its own, got some that overlaps R");
  const fla::Device device{fla::DeviceType::cuda, 999};
  const TensorView R(call.args.R.data(), DType::f32, {2, 1, 2, 3, 5}, device),
      P(call.args.P.data(), DType::f32, {2, 1, 2, 3, 3}, device);
  const std::string said = answer({.R = R, .P = P});
  EXPECT_TRUE(said.starts_with("R: expected device c") && said.find("got cuda:999") != std::string::npos)
      << said;
}

class SevenMerge final : public fla::MergeBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "seven_merge"}; }
  fla::Verdict merge_verifier(const MergeArgs& args) const override {
    return args.state_v_first ? fla::refuse("expected [K, V]") : fla::accept();
  }
  fla::MergeResult merge(const MergeArgs& args) override {
    fla::MergeResult result = make_result(args);
    std::fill_n(result.final_state.as<float>(), result.final_state.numel(), 7.0f);
    return result;
  }
};

TEST(MergeDispatch, GivesCallsToTheBackendThatTakesThem) {
  const auto registered = fla::register_backend("merge", std::make_unique<SevenMerge>());
  MergeCall call({.K = 4, .V = 4});
  EXPECT_EQ(fla::merge(call.args).final_state.as<float>()[0], 7);
  EXPECT_NE(fla::original::merge(call.args).final_state.as<float>()[0], 7);
  call.args.state_v_first = true;
  const fla::Explanation refused = fla::explain("merge", "merge", call.args);
  EXPECT_EQ(refused.selected, "original");
  ASSERT_EQ(refused.rows.size(), 1u);
  EXPECT_EQ(refused.rows[0].reason, "expected [K, V]");
}

}  // namespace
