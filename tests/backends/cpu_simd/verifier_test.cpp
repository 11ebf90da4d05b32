#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/kda/kda.h"
#include "tools/cases/random_case.h"

namespace {

using fla::DType;
using fla::KdaArgs;
using fla::TensorView;

constexpr std::pair<const char*, fla::KdaResult (*)(const KdaArgs&)> kFunctions[] = {
    {"chunk_kda", fla::chunk_kda}, {"fused_recurrent_kda", fla::fused_recurrent_kda}};

/// A view of the same shape whose elements lie `inner` apart on the last axis and `row` on the one before it.
TensorView spread(const fla::Tensor& memory, const TensorView& like, std::int64_t inner, std::int64_t row) {
  std::vector<std::int64_t> strides(like.strides().begin(), like.strides().end());
  strides[3] = inner;
  strides[2] = row;
  strides[1] = row * like.size(2);
  strides[0] = strides[1] * like.size(1);
  return TensorView(memory.data(), like.dtype(), like.shape(), strides);
}

/// Spoils a call that cpu_simd takes, expects both verifiers to refuse it with this reason, and the call to
/// fail with it where cpu_simd is required.
class CpuSimdVerifier : public testing::Test {
 protected:
  static constexpr std::int64_t kT = 3, kH = 2, kK = 8, kV = 4;

  void expect_refusal(const std::function<void(KdaArgs&)>& spoil, const std::string& reason) {
    KdaArgs args = call_.args;
    spoil(args);
    for (const auto& [name, run] : kFunctions) {
      const fla::Explanation explanation = fla::explain("kda", name, args);
      const auto row = std::ranges::find(explanation.rows, "cpu_simd", &fla::Explanation::Row::name);
      ASSERT_NE(row, explanation.rows.end());
      EXPECT_EQ(row->state, "refused");
      EXPECT_EQ(row->reason, reason);
      EXPECT_EQ(explanation.selected, "original");
      const fla::ScopedPolicy required({.require = {{"kda", "cpu_simd"}}});
      try {
        run(args);
        ADD_FAILURE() << name << " ran";
      } catch (const fla::BackendError& error) {
        EXPECT_EQ(error.what(),
                  "kda." + std::string(name) + ": backend cpu_simd is required and refused: " + reason);
      }
    }
  }

  fla::cases::KdaCase call_ = fla::cases::make_kda_case({.T = kT, .H = kH, .K = kK, .V = kV});
  fla::Tensor room_ = fla::Tensor::zeros({4096}, DType::f32);
};

TEST_F(CpuSimdVerifier, TakesAnOrdinaryCall) {
  for (const auto& [name, run] : kFunctions)
    EXPECT_EQ(fla::explain("kda", name, call_.args).selected, "cpu_simd");
}

TEST_F(CpuSimdVerifier, RefusesCudaTensors) {
  const fla::Device device{fla::DeviceType::cuda, 1};
  expect_refusal(
      [&](KdaArgs& args) {
        for (const fla::Argument& argument : KdaArgs::arguments()) {
          if (!argument.is_tensor()) continue;
          TensorView& tensor = argument.tensor(static_cast<void*>(&args));
          if (tensor.defined()) tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), device);
        }
      },
      "requires CPU tensors, got cuda:1");
}

TEST_F(CpuSimdVerifier, RefusesScatteredQueries) {
  expect_refusal([&](KdaArgs& args) { args.q = spread(room_, args.q, 2, 16); },
                 "requires contiguous channels in q, got stride 2");
}

TEST_F(CpuSimdVerifier, RefusesScatteredKeys) {
  expect_refusal([&](KdaArgs& args) { args.k = spread(room_, args.k, 3, 24); },
                 "requires contiguous channels in k, got stride 3");
}

TEST_F(CpuSimdVerifier, RefusesScatteredValues) {
  expect_refusal([&](KdaArgs& args) { args.v = spread(room_, args.v, 2, 8); },
                 "requires contiguous channels in v, got stride 2");
}

TEST_F(CpuSimdVerifier, RefusesScatteredGates) {
  expect_refusal([&](KdaArgs& args) { args.g = spread(room_, args.g, 4, 32); },
                 "requires contiguous channels in g, got stride 4");
}

TEST_F(CpuSimdVerifier, RefusesScatteredOutput) {
  expect_refusal([&](KdaArgs& args) { args.out = spread(room_, args.v, 2, 8); },
                 "requires contiguous channels in out, got stride 2");
}

TEST_F(CpuSimdVerifier, RefusesBf16InitialState) {
  expect_refusal(
      [&](KdaArgs& args) {
        args.initial_state = TensorView(room_.data(), DType::bf16, args.initial_state.shape());
      },
      "requires an f32 initial_state, got bf16");
}

TEST_F(CpuSimdVerifier, RefusesScatteredInitialState) {
  expect_refusal([&](KdaArgs& args) { args.initial_state = spread(room_, args.initial_state, 1, 5); },
                 "requires contiguous states in initial_state, got strides 5 and 1");
  expect_refusal([&](KdaArgs& args) { args.initial_state = spread(room_, args.initial_state, 2, 8); },
                 "requires contiguous states in initial_state, got strides 8 and 2");
}

TEST_F(CpuSimdVerifier, RefusesBf16FinalState) {
  expect_refusal(
      [&](KdaArgs& args) {
        args.final_state = TensorView(room_.data(), DType::bf16, args.initial_state.shape());
      },
      "requires an f32 final_state, got bf16");
}

TEST_F(CpuSimdVerifier, RefusesScatteredFinalState) {
  expect_refusal([&](KdaArgs& args) { args.final_state = spread(room_, args.initial_state, 1, 5); },
                 "requires contiguous states in final_state, got strides 5 and 1");
  expect_refusal([&](KdaArgs& args) { args.final_state = spread(room_, args.initial_state, 2, 8); },
                 "requires contiguous states in final_state, got strides 8 and 2");
}

TEST_F(CpuSimdVerifier, TakesOneChannelWhateverItsStride) {
  fla::cases::KdaCase call = fla::cases::make_kda_case({.T = 2, .H = 1, .K = 1, .V = 1});
  call.args.q = spread(room_, call.args.q, 7, 7);
  call.args.v = spread(room_, call.args.v, 5, 5);
  EXPECT_EQ(fla::explain("kda", "chunk_kda", call.args).selected, "cpu_simd");
}

}  // namespace
