#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "fla/core/half.h"
#include "tests/gpu/gpu_agreement.h"
#include "tools/cases/random.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/laid_out.h"

/// What the data may be like: how fast it forgets, how large states are.
namespace {

using fla::DType;
using fla::cases::DataKind;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla_test::expect_agreement_on_gpu;

class KdaDataOnGpu : public fla_test::OnGpu<testing::TestWithParam<std::tuple<DataKind, DType>>> {
 protected:
  KdaSpec spec(std::int64_t T, std::int64_t K, std::int64_t V) const {
    const auto& [data, dtype] = GetParam();
    return {.T = T, .K = K, .V = V, .dtype = dtype, .data = data};
  }
};

TEST_P(KdaDataOnGpu, IsRightWithGatesGiven) {
  expect_agreement_on_gpu(make_kda_case(spec(200, 128, 128)).args);
  expect_agreement_on_gpu(make_kda_case(spec(75, 200, 64)).args);
}

TEST_P(KdaDataOnGpu, IsRightWithGatesInTheKernel) {
  KdaSpec fused = spec(200, 64, 96);
  fused.HV = 4;
  fused.gate_dtype = fused.dtype;
  fused.options = {.output_final_state = true,
                   .use_qk_l2norm_in_kernel = true,
                   .use_gate_in_kernel = true,
                   .use_beta_sigmoid_in_kernel = true,
                   .state_v_first = true};
  expect_agreement_on_gpu(make_kda_case(fused).args);
  fused.options.lower_bound = -5.0f;
  fused.options.safe_gate = true;
  // Without decay a repeated key with beta 2 turns the state over at every token, and errors with it.
  fused.options.allow_neg_eigval = fused.data != DataKind::repeated_keys;
  fused.K = fused.V = 128;
  expect_agreement_on_gpu(make_kda_case(fused).args);
}

TEST_P(KdaDataOnGpu, IsRightForOneToken) {
  KdaSpec decode = spec(1, 128, 128);
  decode.B = 5;
  decode.HV = 4;
  expect_agreement_on_gpu(make_kda_case(decode).args);
  decode.options.state_v_first = true;
  decode.state_dtype = DType::bf16;
  expect_agreement_on_gpu(make_kda_case(decode).args);
}

TEST_P(KdaDataOnGpu, IsRightOverManyChunks) {
  KdaSpec longer = spec(2048, 128, 128);
  longer.H = 1;
  expect_agreement_on_gpu(make_kda_case(longer).args);
}

INSTANTIATE_TEST_SUITE_P(Kinds, KdaDataOnGpu,
                         testing::Combine(testing::ValuesIn(fla::cases::kAllDataKinds),
                                          testing::Values(DType::bf16, DType::f16, DType::f32)),
                         [](const auto& test) {
                           return std::string(fla::cases::name_of(std::get<0>(test.param))) + "_" +
                                  std::string(fla::name_of(std::get<1>(test.param)));
                         });

class KdaExtremesOnGpu : public fla_test::GpuTest {};

TEST_F(KdaExtremesOnGpu, SlowGatesKeepALargeInitialState) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const KdaCase call =
        make_kda_case({.T = 512, .H = 2, .K = 128, .V = 128, .dtype = dtype, .data = DataKind::slow});
    auto* state = call.args.initial_state.as<float>();
    for (std::int64_t i = 0; i < call.args.initial_state.numel(); ++i) state[i] *= 100;
    expect_agreement_on_gpu(call.args);
  }
}

TEST_F(KdaExtremesOnGpu, InfiniteDecaysForgetEverything) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const std::int64_t tokens : {1, 130}) {
      const KdaCase call =
          make_kda_case({.T = tokens, .H = 2, .K = 128, .V = 64, .dtype = dtype, .data = DataKind::slow});
      fla::cases::Random random(3);
      auto* g = call.args.g.as<float>();
      for (std::int64_t i = 0; i < call.args.g.numel(); ++i) {
        if (random.chance(0.05f)) g[i] = -std::numeric_limits<float>::infinity();
      }
      expect_agreement_on_gpu(call.args);
    }
  }
}

TEST_F(KdaExtremesOnGpu, ADecayOfEveryChannelAtOnceStartsAnew) {
  const KdaCase call = make_kda_case({.T = 100, .H = 1, .K = 64, .V = 64, .data = DataKind::slow});
  auto* g = call.args.g.as<float>();
  for (const std::int64_t token : {0, 1, 31, 32, 63, 64, 99}) {
    for (std::int64_t channel = 0; channel < 64; ++channel) {
      g[token * 64 + channel] = token % 2 == 0 ? -1e30f : -std::numeric_limits<float>::infinity();
    }
  }
  expect_agreement_on_gpu(call.args);
}

TEST_F(KdaExtremesOnGpu, NearlyEqualKeysWithBetaAtOne) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const KdaCase call =
        make_kda_case({.T = 200,
                       .H = 2,
                       .K = 128,
                       .V = 128,
                       .dtype = dtype,
                       .data = DataKind::repeated_keys,
                       .options = {.output_final_state = true, .use_qk_l2norm_in_kernel = true}});
    fla::cases::Random random(4);
    const fla::TensorView& k = call.args.k;
    for (std::int64_t i = 0; i < k.numel(); ++i) {
      const float nudge = 0.02f * random.normal();
      if (dtype == DType::f32) {
        k.as<float>()[i] += nudge;
      } else {
        k.as<fla::bf16>()[i] = fla::from_float<fla::bf16>(fla::to_float(k.as<fla::bf16>()[i]) + nudge);
      }
    }
    expect_agreement_on_gpu(call.args);
  }
}

}  // namespace
