#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fla/dispatch/settings/policy.h"
#include "tests/gpu/gpu_agreement.h"
#include "tests/ops/kda/extremes.h"

/// Numbers of any magnitude, and numbers that are not finite, in every kernel for the GPU.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::cases::DataKind;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla::conformance::DeviceCall;
using fla_test::kGpu;

/// Who runs calls, by which function, with which sizes.
struct Kernel {
  const char* name;  ///< "original", or a backend
  const char* function;
  KdaResult (*run)(const KdaArgs&);
  std::int64_t T;
  std::vector<std::int64_t> channels;  ///< K and V
  std::vector<DType> dtypes;
};

std::vector<Kernel> kernels() {
  return {
      {"original", "chunk_kda", fla::original::chunk_kda, 75, {20, 64, 128, 200}, {DType::f32, DType::bf16}},
      {"original",
       "fused_recurrent_kda",
       fla::original::fused_recurrent_kda,
       75,
       {64},
       {DType::f32, DType::bf16}},
      {"tilelang", "chunk_kda", fla::chunk_kda, 150, {64, 128, 256}, {DType::bf16, DType::f16}},
      {"flash_kda", "chunk_kda", fla::chunk_kda, 150, {128}, {DType::bf16, DType::f16}},
      {"cuda_decode",
       "fused_recurrent_kda",
       fla::fused_recurrent_kda,
       1,
       {64, 128},
       {DType::bf16, DType::f32}},
  };
}

class KdaNumbersOnGpu : public fla_test::OnGpu<testing::TestWithParam<Kernel>> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped() || GetParam().name == std::string("original")) return;
    if (const std::string why = fla_test::why_without(GetParam().name); !why.empty())
      GTEST_SKIP() << "not run: " << why;
  }

  KdaResult run(const KdaArgs& host) const {
    fla::Policy policy;
    if (GetParam().name != std::string("original")) policy.require = {{"kda", GetParam().name}};
    const fla::ScopedPolicy required(policy);
    DeviceCall call(host, kGpu);
    const KdaResult result = call.bring_back(GetParam().run(call.args()));
    EXPECT_EQ(call.damage(), "");
    return result;
  }

  template <class Body>
  void for_each_spec(Body&& body) const {
    for (const std::int64_t channels : GetParam().channels) {
      for (const DType dtype : GetParam().dtypes)
        body({.B = 2, .T = GetParam().T, .H = 2, .K = channels, .V = channels, .dtype = dtype});
    }
  }

  double bar(const KdaArgs& args) const {
    const fla_test::Bars bars = fla_test::bars_of(args, DType::f32, GetParam().name);
    return std::max(bars.o, bars.final_state);
  }
};

TEST_P(KdaNumbersOnGpu, MayHaveAnyMagnitude) {
  for_each_spec([&](KdaSpec spec) {
    for (const DataKind data : {DataKind::random, DataKind::slow, DataKind::strong}) {
      spec.data = data;
      for (const fla_test::Magnitude& magnitude : fla_test::magnitudes_of(spec.dtype)) {
        const KdaCase made = make_kda_case(spec);
        fla_test::apply(magnitude, made.args);
        fla_test::expect_within_bars(run(made.args), fla::cases::reference_of(made.args), made.args,
                                     magnitude.name, GetParam().name);
      }
    }
  });
}

TEST_P(KdaNumbersOnGpu, MayBeLargeWithoutLeavingTheRangeOfF32) {
  for_each_spec([&](KdaSpec spec) {
    if (spec.dtype == DType::f16) return;
    spec.options.use_qk_l2norm_in_kernel = true;
    for (const DataKind data : {DataKind::random, DataKind::resets, DataKind::strong}) {
      spec.data = data;
      const KdaCase made = make_kda_case(spec);
      fla_test::multiply(made.args.q, 0x1p30);
      fla_test::multiply(made.args.k, 0x1p30);
      fla_test::multiply(made.args.v, 0x1p110);  // about 1e33
      fla_test::multiply(made.args.initial_state, 0x1p110);
      fla_test::expect_within_bars(run(made.args), fla::cases::reference_of(made.args), made.args, "1e33",
                                   GetParam().name);
    }
  });
}

TEST_P(KdaNumbersOnGpu, ThatAreNotFiniteChangeNothingBefore) {
  for_each_spec([&](KdaSpec spec) {
    std::vector<std::int64_t> tokens{0};
    if (spec.T > 1) tokens = {3, 37, 63, spec.T - 1};
    for (const bool normalised : {false, true}) {
      spec.options.use_qk_l2norm_in_kernel = normalised;
      const KdaCase made = make_kda_case(spec);
      for (const fla_test::Spoilt& spoilt : fla_test::all_spoilt(made.args, tokens))
        fla_test::expect_causal(made.args, spoilt, bar(made.args),
                                [&](const KdaArgs& args) { return run(args); });
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, KdaNumbersOnGpu, testing::ValuesIn(kernels()), [](const auto& test) {
  return std::string(test.param.name) + "_" + test.param.function;
});

}  // namespace
