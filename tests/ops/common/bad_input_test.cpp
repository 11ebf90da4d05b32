#include <gtest/gtest.h>

#include <string>

#include "fla/core/errors.h"
#include "fla/ops/common/stages.h"
#include "tests/core/error_text.h"
#include "tests/ops/common/random_tensor.h"

namespace {

using fla::DType;
using fla::GateArgs;
using fla::L2NormArgs;
using fla::SolveTrilArgs;
using fla::Tensor;
using fla::TensorView;
using fla_test::random_tensor;
namespace common = fla::common;

/// What a stage says to arguments that are wrong after its name, which must be the same both ways.
template <class Args>
std::string answer(const std::string& name, fla::StageResult (*stage)(const Args&),
                   fla::StageResult (*original)(const Args&), const Args& args) {
  const auto said = [&](auto* run) {
    const std::string text = fla_test::error_text<fla::InvalidArgument>([&] { (void)run(args); });
    return text.starts_with(name + ": ") ? text.substr(name.size() + 2) : "without its name: " + text;
  };
  const std::string text = said(stage);
  EXPECT_EQ(said(original), text);
  return text;
}
std::string l2_norm(const L2NormArgs& args) {
  return answer("l2_norm", common::l2_norm, common::original::l2_norm, args);
}
std::string gate(const GateArgs& args) { return answer("gate", common::gate, common::original::gate, args); }
std::string solve_tril(const SolveTrilArgs& args) {
  return answer("solve_tril", common::solve_tril, common::original::solve_tril, args);
}

const Tensor kX = random_tensor({2, 3, 4, 5}, DType::f32, 1);
const Tensor kRate = random_tensor({4}, DType::f32, 1);

TEST(StagesRefuse, MissingTensors) {
  EXPECT_EQ(l2_norm({}), "x: expected a tensor of shape [B, T, H, K], got none");
  EXPECT_EQ(gate({}), "g: expected a tensor of shape [B, T, HV, K], got none");
  EXPECT_EQ(solve_tril({}), "A: expected a tensor of shape [B, T, HV, C], got none");
  EXPECT_EQ(gate({.g = kX}),
            "A_log: expected a tensor of shape [HV] where there is no lower_bound, got none");
}

TEST(StagesRefuse, OtherShapes) {
  const Tensor flat = random_tensor({2, 3, 20}, DType::f32, 1),
               other = random_tensor({2, 3, 4, 6}, DType::f32, 1);
  EXPECT_EQ(l2_norm({.x = flat}), "x: expected shape [B, T, H, K], got [2, 3, 20]");
  EXPECT_EQ(l2_norm({.x = kX, .out = other}), "out: expected shape [B=2, T=3, H=4, K=5], got [2, 3, 4, 6]");
  const Tensor rates = random_tensor({3}, DType::f32, 1), bias = random_tensor({19}, DType::f32, 1);
  EXPECT_EQ(gate({.g = kX, .A_log = rates}), "A_log: expected shape [HV=4], got [3]");
  EXPECT_EQ(gate({.g = kX, .A_log = kRate, .dt_bias = bias}), "dt_bias: expected shape [HV*K=20], got [19]");
  EXPECT_EQ(solve_tril({.A = kX, .out = other}),
            "out: expected shape [B=2, T=3, HV=4, C=5], got [2, 3, 4, 6]");
}

TEST(StagesRefuse, OtherDTypes) {
  const Tensor half = random_tensor({2, 3, 4, 5}, DType::bf16, 1),
               index = Tensor::zeros({2, 3, 4, 5}, DType::i32);
  EXPECT_EQ(l2_norm({.x = index}), "x: expected dtype bf16 or f16 or f32, got i32");
  EXPECT_EQ(l2_norm({.x = kX, .out = half}), "out: expected dtype f32, got bf16");
  EXPECT_EQ(gate({.g = kX, .A_log = kRate, .out = half}), "out: expected dtype f32, got bf16");
  EXPECT_EQ(solve_tril({.A = kX, .out = half}), "out: expected dtype f32, got bf16");
}

TEST(StagesRefuse, OtherDevicesAndNullPointers) {
  const fla::Device cuda{fla::DeviceType::cuda, 0};
  const TensorView away(kX.data(), DType::f32, {2, 3, 4, 5}, cuda), null(nullptr, DType::f32, {2, 3, 4, 5});
  EXPECT_EQ(l2_norm({.x = null}), "x: expected f32[2, 3, 4, 5] on cpu, got a null pointer");
  EXPECT_EQ(gate({.g = kX, .A_log = kRate, .out = away}), "out: expected device cpu, got cuda:0");
  EXPECT_EQ(l2_norm({.x = away, .out = away}),
            "x: expected device cpu, got cuda:0: the stages have kernels for the CPU alone");
  EXPECT_EQ(gate({.g = away, .lower_bound = -1.0f, .out = away}),
            "g: expected device cpu, got cuda:0: the stages have kernels for the CPU alone");
  EXPECT_EQ(solve_tril({.A = away, .out = away}),
            "A: expected device cpu, got cuda:0: the stages have kernels for the CPU alone");
}

TEST(StagesRefuse, OutputsThatOverlapOtherThanInPlace) {
  const Tensor memory = Tensor::zeros({2, 3, 4, 6}, DType::f32);
  const TensorView front = memory.view().slice(3, 0, 5), back = memory.view().slice(3, 1, 5);
  EXPECT_EQ(l2_norm({.x = front, .out = back}), "out: expected memory of its own, got some that overlaps x");
  EXPECT_EQ(gate({.g = front, .lower_bound = -1.0f, .out = back}),
            "out: expected memory of its own, got some that overlaps g");
  EXPECT_EQ(solve_tril({.A = front, .out = back}),
            "out: expected memory of its own, got some that overlaps A");
  EXPECT_EQ(l2_norm({.x = front, .out = front}), "without its name: nothing was thrown");
}

TEST(StagesRefuse, BoundsThatAreNone) {
  EXPECT_EQ(gate({.g = kX, .lower_bound = 0.0f}), "lower_bound: expected a negative value, got 0.000000");
  EXPECT_EQ(gate({.g = kX, .lower_bound = 2.0f}), "lower_bound: expected a negative value, got 2.000000");
  EXPECT_EQ(gate({.g = kX, .lower_bound = -std::numeric_limits<float>::infinity()}),
            "lower_bound: expected a finite number, got -inf");
}

TEST(StagesRefuse, ChunksThatAreTooLongOrNone) {
  const Tensor none = Tensor::empty({2, 3, 4, 0}, DType::f32),
               many = Tensor::zeros({1, 2, 1, 65}, DType::f32);
  EXPECT_EQ(solve_tril({.A = none}), "A: expected C from 1 to 64, got 0");
  EXPECT_EQ(solve_tril({.A = many}), "A: expected C from 1 to 64, got 65");
}

}  // namespace
