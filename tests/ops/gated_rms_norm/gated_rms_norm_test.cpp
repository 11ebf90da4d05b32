#include "fla/ops/gated_rms_norm/gated_rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/core/threads.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/observe/explain.h"
#include "tests/core/error_text.h"
#include "tests/ops/common/laid_out_call.h"
#include "tests/ops/gated_rms_norm/norm_call.h"
#include "tools/conformance/allocations.h"

namespace {

using fla::DType;
using fla::GatedRmsNormArgs;
using fla::Tensor;
using fla::TensorView;
using fla::conformance::bytes_of;
using fla::conformance::Layout;
using fla_test::LaidOutCall;
using fla_test::norm_specs;
using fla_test::NormCall;
using fla_test::NormSpec;
using fla_test::random_tensor;

TEST(GatedRmsNorm, IsTheFormula) {
  float x[] = {3, 4}, g[] = {0, 1}, weight[] = {5, 2};
  const GatedRmsNormArgs args{.x = TensorView(x, DType::f32, {1, 1, 1, 2}),
                              .g = TensorView(g, DType::f32, {1, 1, 1, 2}),
                              .weight = TensorView(weight, DType::f32, {2}),
                              .eps = 0.0f};
  const Tensor swish = fla::gated_rms_norm(args).o;
  EXPECT_EQ(swish.as<float>()[0], 0);
  EXPECT_NEAR(swish.as<float>()[1], 4 / std::sqrt(12.5) * 2 / (1 + std::exp(-1.0)), 1e-6);
  GatedRmsNormArgs shares = args;
  shares.use_sigmoid = true;
  EXPECT_NEAR(fla::gated_rms_norm(shares).o.as<float>()[0], 3 / std::sqrt(12.5) * 5 / 2, 1e-6);
}

TEST(GatedRmsNorm, AgreesWithFloat64) {
  for (const NormSpec& spec : norm_specs()) {
    const NormCall call(spec);
    for (const auto run : {&fla::gated_rms_norm, &fla::original::gated_rms_norm}) {
      const Tensor o = run(call.args).o;
      EXPECT_EQ(o.dtype(), spec.dtype);
      const double tolerance = spec.dtype == DType::f32 ? 1e-6 : fla::cases::tolerance(spec.dtype);
      EXPECT_LE(fla::cases::relative_error(o, fla::cases::reference_of(call.args)), tolerance) << spec.text();
    }
  }
}

TEST(GatedRmsNorm, LongRowsLoseNothing) {
  const NormCall call({.B = 1, .T = 1, .HV = 1, .V = 65536});
  EXPECT_LE(fla::cases::relative_error(fla::gated_rms_norm(call.args).o, fla::cases::reference_of(call.args)),
            1e-6);
}

TEST(GatedRmsNorm, LayoutsPlacesAndThreadsDoNotChangeBits) {
  fla::cases::Random random(6);
  for (const NormSpec& spec : norm_specs()) {
    NormCall call(spec);
    const Tensor expected = fla::gated_rms_norm(call.args).o, out = fla::copy_to(expected, {});
    for (const TensorView& place : {out.view(), call.x.view()}) {
      call.args.out = place;
      for (int trial = 0; trial < 3; ++trial) {
        const LaidOutCall laid(call.args, [&](int rank) {
          return trial == 0 ? Layout::padded(rank) : Layout::random(rank, random);
        });
        fla::set_num_threads(3);
        EXPECT_EQ(bytes_of(fla::gated_rms_norm(laid.args).o), bytes_of(expected)) << spec.text();
        fla::set_num_threads(0);
        EXPECT_TRUE(laid.intact()) << spec.text();
      }
    }
    GatedRmsNormArgs last = call.args;
    last.x = last.x.slice(1, spec.T - 1, 1), last.g = last.g.slice(1, spec.T - 1, 1), last.out = {};
    EXPECT_EQ(bytes_of(fla::gated_rms_norm(last).o), bytes_of(expected.view().slice(1, spec.T - 1, 1)))
        << spec.text() << ": a token alone";
  }
}

TEST(GatedRmsNorm, AllocatesNothingWhenTheOutputIsGiven) {
  NormCall call({.dtype = DType::bf16});
  call.args.out = call.args.x;
  fla::set_num_threads(1);
  (void)fla::gated_rms_norm(call.args);
  const std::uint64_t before = fla_test::allocations();
  (void)fla::gated_rms_norm(call.args);
  EXPECT_EQ(fla_test::allocations(), before);
  fla::set_num_threads(0);
}

TEST(GatedRmsNorm, StrongGatesStayFinite) {
  Tensor x = random_tensor({1, 1, 1, 4}, DType::f32, 1), g = Tensor::empty({1, 1, 1, 4}, DType::f32);
  const float gates[] = {1000, -1000, 88, -88};
  std::copy_n(gates, 4, g.as<float>());
  for (const bool sigmoid : {false, true}) {
    const Tensor o = fla::gated_rms_norm({.x = x, .g = g, .use_sigmoid = sigmoid}).o;
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isfinite(o.as<float>()[i])) << i;
    EXPECT_EQ(o.as<float>()[1], 0);
  }
}

TEST(GatedRmsNorm, ZerosStayZeros) {
  const Tensor x = Tensor::zeros({1, 1, 1, 3}, DType::f32), g = random_tensor({1, 1, 1, 3}, DType::f32, 1);
  const Tensor o = fla::gated_rms_norm({.x = x, .g = g}).o;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(o.as<float>()[i], 0) << "eps is more than 0 when left out";
  const Tensor none = Tensor::zeros({0, 5, 2, 3}, DType::f32);
  EXPECT_EQ(fla::gated_rms_norm({.x = none, .g = none}).o.numel(), 0);
}

std::string answer(const GatedRmsNormArgs& args) {
  const auto said = [&](auto* run) {
    return fla_test::error_text<fla::InvalidArgument>([&] { (void)run(args); });
  };
  const std::string text = said(&fla::gated_rms_norm), name = "gated_rms_norm: ";
  EXPECT_EQ(said(&fla::original::gated_rms_norm), text);
  return text.starts_with(name) ? text.substr(name.size()) : "without its name: " + text;
}

TEST(GatedRmsNormRefuses, BadInput) {
  const NormCall call({.V = 5});
  const Tensor flat = random_tensor({2, 3, 10}, DType::f32, 1),
               other = random_tensor({2, 3, 2, 6}, DType::f32, 1),
               whole = Tensor::zeros({2, 3, 2, 5}, DType::i64),
               half = Tensor::zeros({2, 3, 2, 5}, DType::f16),
               empty = Tensor::zeros({2, 3, 2, 0}, DType::f32);
  GatedRmsNormArgs wrong{};
  EXPECT_EQ(answer(wrong), "x: expected a tensor of shape [B, T, HV, V], got none");
  EXPECT_EQ(answer({.x = call.x}), "g: expected a tensor of shape [B=2, T=3, HV=2, V=5], got none");
  EXPECT_EQ(answer({.x = flat, .g = flat}), "x: expected shape [B, T, HV, V], got [2, 3, 10]");
  EXPECT_EQ(answer({.x = call.x, .g = other}), "g: expected shape [B=2, T=3, HV=2, V=5], got [2, 3, 2, 6]");
  EXPECT_EQ(answer({.x = whole, .g = call.g}), "x: expected dtype bf16 or f16 or f32, got i64");
  EXPECT_EQ(answer({.x = empty, .g = empty}), "x: expected at least one channel, got V=0");
  wrong = call.args, wrong.weight = flat;
  EXPECT_EQ(answer(wrong), "weight: expected shape [V=5], got [2, 3, 10]");
  wrong = call.args, wrong.out = half;
  EXPECT_EQ(answer(wrong), "out: expected dtype f32 like x, got f16");
  wrong = call.args, wrong.out = call.g;
  EXPECT_EQ(answer(wrong), "out: expected memory of its own, got some that overlaps g");
  wrong = call.args, wrong.g = TensorView(nullptr, DType::f32, {2, 3, 2, 5});
  EXPECT_EQ(answer(wrong), "g: expected f32[2, 3, 2, 5] on cpu, got a null pointer");
  wrong = call.args, wrong.eps = -1.0f;
  EXPECT_EQ(answer(wrong), "eps: expected 0 or more, got -1.000000");
  wrong = call.args, wrong.eps = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(answer(wrong), "eps: expected a finite number, got nan");
  const fla::Device device{fla::DeviceType::cuda, 999};
  const TensorView there(call.x.data(), DType::f32, {2, 3, 2, 5}, device);
  const std::string said = answer({.x = there, .g = there});
  EXPECT_TRUE(said.starts_with("x: expected device c") && said.find("got cuda:999") != std::string::npos)
      << said;
}

class SevenNorm final : public fla::GatedRmsNormBackend {
 public:
  fla::BackendInfo info() const override { return {.name = "seven_norm"}; }
  fla::Verdict gated_rms_norm_verifier(const GatedRmsNormArgs& args) const override {
    return args.use_sigmoid ? fla::refuse("expected silu") : fla::accept();
  }
  fla::GatedRmsNormResult gated_rms_norm(const GatedRmsNormArgs& args) override {
    fla::GatedRmsNormResult result = make_result(args);
    for (std::int64_t i = 0; i < result.o.numel(); ++i) fla::cases::store(result.o, i, 7);
    return result;
  }
};

TEST(GatedRmsNormDispatch, GivesCallsToTheBackendThatTakesThem) {
  const auto registered = fla::register_backend("gated_rms_norm", std::make_unique<SevenNorm>());
  NormCall call({.V = 5});
  EXPECT_EQ(fla::gated_rms_norm(call.args).o.as<float>()[0], 7);
  EXPECT_NE(fla::original::gated_rms_norm(call.args).o.as<float>()[0], 7);
  call.args.use_sigmoid = true;
  const fla::Explanation refused = fla::explain("gated_rms_norm", "gated_rms_norm", call.args);
  EXPECT_EQ(refused.selected, "original");
  ASSERT_EQ(refused.rows.size(), 1u);
  EXPECT_EQ(refused.rows[0].reason, "expected silu");
}

}  // namespace
