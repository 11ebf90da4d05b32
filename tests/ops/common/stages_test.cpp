#include "fla/ops/common/stages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "fla/core/threads.h"
#include "tests/ops/common/random_tensor.h"
#include "tools/cases/accuracy.h"
#include "tools/conformance/laid_out.h"
#include "tools/conformance/stage_reference.h"

namespace {

using fla::DType;
using fla::StageResult;
using fla::Tensor;
using fla::TensorView;
using fla::cases::element;
using fla::conformance::bytes_of;
using fla::conformance::for_each_offset;
using fla::conformance::LaidOut;
using fla::conformance::Layout;
using fla::conformance::stage_reference;
using fla_test::random_tensor;
namespace common = fla::common;

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr double kTolerance = 1e-6;  // results are f32, whatever the inputs are

std::vector<double> values_of(const TensorView& tensor) {
  std::vector<double> values;
  for_each_offset(tensor, [&](std::int64_t offset) { values.push_back(element(tensor, offset)); });
  return values;
}

template <class Args>
struct Ways {
  const char* name;
  StageResult (*run)(const Args&);
};

/// Runs a stage both ways, with inputs and outputs laid out in three ways between poison, and in place.
template <class Args>
void expect_agreement(const Args& args, TensorView Args::*input, StageResult (*stage)(const Args&),
                      StageResult (*original)(const Args&)) {
  const std::vector<double> exact = stage_reference(args);
  fla::cases::Random random(77);
  for (const Ways<Args>& way : {Ways<Args>{"dispatched", stage}, Ways<Args>{"original", original}}) {
    const StageResult made = way.run(args);
    EXPECT_EQ(made.out.dtype(), DType::f32);
    EXPECT_LE(fla::cases::relative_error(made.out, exact), kTolerance) << way.name;
    for (const Layout& layout : {Layout{}, Layout::padded(4), Layout::random(4, random)}) {
      Args laid_out = args;
      const LaidOut source = LaidOut::copy_of(args.*input, layout);
      const LaidOut target((args.*input).shape(), DType::f32, layout);
      laid_out.*input = source.view();
      laid_out.out = target.view();
      const StageResult result = way.run(laid_out);
      EXPECT_EQ(result.out.data(), target.view().data());
      EXPECT_EQ(bytes_of(result.out), bytes_of(made.out)) << way.name << ": other bits in another layout";
      EXPECT_TRUE(target.intact_around()) << way.name;
      EXPECT_TRUE(source.intact()) << way.name;
      if ((args.*input).dtype() != DType::f32) continue;
      laid_out.out = source.view();
      (void)way.run(laid_out);
      EXPECT_EQ(bytes_of(source), bytes_of(made.out)) << way.name << ": other bits in place";
      EXPECT_TRUE(source.intact_around()) << way.name;
    }
  }
}

TEST(L2Norm, AgreesWithFloat64) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t K : {1, 5, 64, 300}) {
      const Tensor x = random_tensor({2, 7, 3, K}, dtype, 1);
      const fla::L2NormArgs args{.x = x};
      expect_agreement(args, &fla::L2NormArgs::x, common::l2_norm, common::original::l2_norm);
    }
  }
}

TEST(L2Norm, OfZerosIsZero) {
  const Tensor x = Tensor::zeros({1, 2, 1, 4}, DType::f32);
  EXPECT_EQ(values_of(common::l2_norm({.x = x}).out), std::vector<double>(8, 0.0));
}

TEST(Gate, AgreesWithFloat64) {
  const Tensor rate = random_tensor({3}, DType::bf16, 5), flat = random_tensor({3 * 24}, DType::f16, 6),
               rows = random_tensor({3, 24}, DType::f32, 7);
  for (const DType dtype : kDTypes) {
    const Tensor g = random_tensor({2, 9, 3, 24}, dtype, 4, 3);
    const TensorView every_other = TensorView(rate.data(), DType::bf16, std::array<std::int64_t, 1>{3});
    for (const fla::GateArgs& args :
         {fla::GateArgs{.g = g, .A_log = every_other}, fla::GateArgs{.g = g, .A_log = rate, .dt_bias = flat},
          fla::GateArgs{.g = g, .lower_bound = -5.0f},
          fla::GateArgs{.g = g, .lower_bound = -40.0f, .A_log = rate, .dt_bias = rows},
          fla::GateArgs{.g = g, .lower_bound = -0.5f, .dt_bias = flat}}) {
      expect_agreement(args, &fla::GateArgs::g, common::gate, common::original::gate);
    }
  }
}

TEST(Gate, HasNoOverflow) {
  Tensor g = Tensor::empty({1, 4, 1, 1}, DType::f32), rate = Tensor::zeros({1}, DType::f32);
  const float infinity = std::numeric_limits<float>::infinity();
  const float raw[] = {1000, -1000, infinity, -infinity};
  std::copy_n(raw, 4, g.as<float>());
  EXPECT_EQ(values_of(common::gate({.g = g, .A_log = rate}).out),
            (std::vector<double>{-1000, -0.0, -double{infinity}, -0.0}));
  EXPECT_EQ(values_of(common::gate({.g = g, .lower_bound = -5.0f}).out),
            (std::vector<double>{-5, -0.0, -5, -0.0}));
}

TEST(SolveTril, AgreesWithFloat64) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t C : {1, 2, 16, 64}) {
      for (const std::int64_t tokens : {1, 15, 64, 70}) {
        // As large as beta * k^T k can be for keys of length 1 that are not all alike.
        const Tensor A = random_tensor({2, tokens, 3, C}, dtype, 9, 0.2f);
        const fla::SolveTrilArgs args{.A = A};
        expect_agreement(args, &fla::SolveTrilArgs::A, common::solve_tril, common::original::solve_tril);
      }
    }
  }
}

TEST(SolveTril, IsTheInverse) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // I + [[0, 0, 0], [2, 0, 0], [3, 4, 0]]; what is not below the diagonal is not read.
  float rows[] = {nan, nan, nan, 2, nan, nan, 3, 4, nan, nan, nan, nan};
  const StageResult result = common::solve_tril({.A = TensorView(rows, DType::f32, {1, 4, 1, 3})});
  EXPECT_EQ(values_of(result.out), (std::vector<double>{1, 0, 0, -2, 1, 0, 5, -4, 1, 1, 0, 0}));
}

TEST(Stages, EmptyCallsGiveEmptyResults) {
  const Tensor x = Tensor::empty({2, 0, 3, 4}, DType::f32), none = Tensor::empty({0, 5, 3, 4}, DType::bf16);
  for (const Tensor& input : {x, none}) {
    EXPECT_EQ(common::l2_norm({.x = input}).out.numel(), 0);
    EXPECT_EQ(common::gate({.g = input, .lower_bound = -1.0f}).out.numel(), 0);
    EXPECT_EQ(common::solve_tril({.A = input}).out.numel(), 0);
  }
}

TEST(Stages, HaveTheSameBitsOnAnyNumberOfThreads) {
  const Tensor x = random_tensor({4, 33, 5, 16}, DType::f32, 3, 0.2f);
  const std::function<Tensor()> stages[] = {[&] { return common::l2_norm({.x = x}).out; },
                                            [&] { return common::gate({.g = x, .lower_bound = -5.0f}).out; },
                                            [&] { return common::solve_tril({.A = x}).out; }};
  for (const auto& stage : stages) {
    fla::set_num_threads(1);
    const Tensor alone = stage();
    for (const int threads : {2, 7}) {
      fla::set_num_threads(threads);
      EXPECT_EQ(bytes_of(stage()), bytes_of(alone));
    }
    fla::set_num_threads(0);
  }
}

TEST(Stages, HaveTheSameBitsForARowAloneAndAmongOthers) {
  const Tensor x = random_tensor({3, 32, 2, 16}, DType::f32, 3, 0.2f);
  const TensorView one = x.view().slice(0, 1, 1).slice(2, 1, 1);
  const auto part = [](const Tensor& all) { return bytes_of(all.view().slice(0, 1, 1).slice(2, 1, 1)); };
  EXPECT_EQ(bytes_of(common::l2_norm({.x = one}).out), part(common::l2_norm({.x = x}).out));
  EXPECT_EQ(bytes_of(common::gate({.g = one, .lower_bound = -5.0f}).out),
            part(common::gate({.g = x, .lower_bound = -5.0f}).out));
  EXPECT_EQ(bytes_of(common::solve_tril({.A = one}).out), part(common::solve_tril({.A = x}).out));
}

}  // namespace
