#include <gtest/gtest.h>

#include <limits>

#include "fla/core/half.h"
#include "tests/ops/kda/every_way.h"
#include "tools/cases/random_case.h"

namespace {

using fla::DType;
using fla::KdaArgs;
using fla::cases::DataKind;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla_test::expect_agreement;

KdaSpec small(const KdaArgs& options) {
  return {.B = 2, .T = 20, .H = 2, .K = 24, .V = 20, .options = options};
}

void expect_agreement_of(const KdaSpec& spec) { expect_agreement(make_kda_case(spec).args); }

TEST(KdaOptions, PlainCall) { expect_agreement_of(small({})); }

TEST(KdaOptions, FinalStateIsReturnedWhenAskedFor) {
  expect_agreement_of(small({.output_final_state = true}));
}

TEST(KdaOptions, ScaleOfAnySign) {
  for (const float scale : {0.0f, 1.0f, -2.5f, 1e-6f, 1e6f}) expect_agreement_of(small({.scale = scale}));
}

TEST(KdaOptions, NormalisedQueriesAndKeys) {
  expect_agreement_of(small({.output_final_state = true, .use_qk_l2norm_in_kernel = true}));
}

TEST(KdaOptions, SoftplusGate) {
  expect_agreement_of(small({.output_final_state = true, .use_gate_in_kernel = true}));
}

TEST(KdaOptions, SoftplusGateWithoutBias) {
  KdaCase call = make_kda_case(small({.use_gate_in_kernel = true}));
  call.args.dt_bias = {};
  expect_agreement(call.args);
}

TEST(KdaOptions, BoundedGate) {
  for (const float bound : {-5.0f, -0.01f, -300.0f}) {
    expect_agreement_of(
        small({.output_final_state = true, .use_gate_in_kernel = true, .lower_bound = bound}));
  }
}

TEST(KdaOptions, SafeGate) {
  expect_agreement_of(small({.use_gate_in_kernel = true, .safe_gate = true, .lower_bound = -5.0f}));
}

TEST(KdaOptions, BoundedGateWithoutALog) {
  KdaCase call = make_kda_case(small({.use_gate_in_kernel = true, .lower_bound = -5.0f}));
  call.args.A_log = {};
  expect_agreement(call.args);
}

TEST(KdaOptions, BiasMayBeATable) {
  KdaCase call = make_kda_case(small({.use_gate_in_kernel = true, .lower_bound = -5.0f}));
  call.args.dt_bias = {call.args.dt_bias.data(), DType::f32, {2, 24}};
  expect_agreement(call.args);
}

TEST(KdaOptions, GateOptionsMeanNothingWithoutTheGateInTheKernel) {
  KdaCase call = make_kda_case(small({.output_final_state = true}));
  const fla::KdaResult plain = fla::original::chunk_kda(call.args);
  call.args.lower_bound = -20.0f;
  call.args.safe_gate = true;
  EXPECT_TRUE(fla::conformance::same_bits(plain, fla::original::chunk_kda(call.args)));
  expect_agreement(call.args);
}

TEST(KdaOptions, SigmoidBeta) { expect_agreement_of(small({.use_beta_sigmoid_in_kernel = true})); }

TEST(KdaOptions, NegativeEigenvalues) {
  expect_agreement_of(small({.output_final_state = true,
                             .use_qk_l2norm_in_kernel = true,
                             .use_beta_sigmoid_in_kernel = true,
                             .allow_neg_eigval = true}));
}

TEST(KdaOptions, Everything) {
  expect_agreement_of(small({.scale = 0.3f,
                             .output_final_state = true,
                             .use_qk_l2norm_in_kernel = true,
                             .use_gate_in_kernel = true,
                             .use_beta_sigmoid_in_kernel = true,
                             .allow_neg_eigval = true,
                             .safe_gate = true,
                             .lower_bound = -4.0f,
                             .state_v_first = true}));
}

class KdaDtypes : public testing::TestWithParam<std::tuple<DType, DType, DType>> {};

TEST_P(KdaDtypes, Agree) {
  const auto [dtype, gate, state] = GetParam();
  for (const bool in_kernel : {false, true}) {
    expect_agreement_of({.T = 37,
                         .H = 2,
                         .HV = 4,
                         .K = 40,
                         .V = 24,
                         .dtype = dtype,
                         .gate_dtype = gate,
                         .state_dtype = state,
                         .options = {.output_final_state = true,
                                     .use_gate_in_kernel = in_kernel,
                                     .use_beta_sigmoid_in_kernel = in_kernel}});
  }
}

INSTANTIATE_TEST_SUITE_P(All, KdaDtypes,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(DType::f32, DType::bf16)),
                         [](const auto& test) {
                           return std::string(fla::name_of(std::get<0>(test.param))) + "_gates_" +
                                  std::string(fla::name_of(std::get<1>(test.param))) + "_states_" +
                                  std::string(fla::name_of(std::get<2>(test.param)));
                         });

TEST(KdaDtypeMix, QueriesKeysAndValuesMayDiffer) {
  KdaCase q = make_kda_case({.T = 19, .H = 2, .K = 16, .V = 16, .dtype = DType::bf16});
  const KdaCase k = make_kda_case({.T = 19, .H = 2, .K = 16, .V = 16, .dtype = DType::f16, .seed = 2});
  const KdaCase v = make_kda_case({.T = 19, .H = 2, .K = 16, .V = 16, .dtype = DType::f32, .seed = 3});
  q.args.k = k.args.k;
  q.args.v = v.args.v;
  expect_agreement(q.args);
  EXPECT_EQ(fla::kda(q.args).o.dtype(), DType::f32) << "o has the dtype of v";
}

class KdaDataKinds : public testing::TestWithParam<DataKind> {};

TEST_P(KdaDataKinds, Agree) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool in_kernel : {false, true}) {
      expect_agreement_of({.T = 130,
                           .H = 1,
                           .HV = 2,
                           .K = 32,
                           .V = 32,
                           .dtype = dtype,
                           .data = GetParam(),
                           .options = {.output_final_state = true, .use_gate_in_kernel = in_kernel}});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, KdaDataKinds, testing::ValuesIn(fla::cases::kAllDataKinds),
                         [](const auto& test) { return std::string(fla::cases::name_of(test.param)); });

TEST(KdaGates, OfMinusInfinityForgetEverything) {
  for (const std::int64_t tokens : {1, 5, 40}) {
    KdaCase call = make_kda_case({.T = tokens, .H = 2, .K = 16, .V = 16, .data = DataKind::slow});
    float* g = call.args.g.as<float>();
    for (std::int64_t i = 0; i < call.args.g.numel(); i += 7) g[i] = -std::numeric_limits<float>::infinity();
    expect_agreement(call.args);
    for (std::int64_t i = 0; i < call.args.g.numel(); ++i) g[i] = -std::numeric_limits<float>::infinity();
    expect_agreement(call.args);
  }
}

TEST(KdaGates, OfAnyStrengthAreExact) {
  for (const float decay : {-1e-3f, -1.0f, -88.0f, -1e3f, -1e10f, -3e38f}) {
    KdaCase call = make_kda_case({.T = 50, .H = 1, .K = 16, .V = 16, .data = DataKind::slow});
    float* g = call.args.g.as<float>();
    for (std::int64_t i = 0; i < call.args.g.numel(); i += 5) g[i] = decay;
    expect_agreement(call.args);
  }
}

TEST(KdaFrontDoor, GivesShortCallsToTheRecurrentFunction) {
  EXPECT_EQ(fla::front_door(make_kda_case({.T = 1}).args), "fused_recurrent_kda");
  EXPECT_EQ(fla::front_door(make_kda_case({.T = 512}).args), "chunk_kda");
  {
    const fla::ScopedPolicy policy({.batch_invariant = true});  // its length must not decide
    EXPECT_EQ(fla::front_door(make_kda_case({.T = 1}).args), "chunk_kda");
  }
  EXPECT_EQ(fla::front_door(make_kda_case({.lengths = std::vector<std::int64_t>(64, 1)}).args),
            "fused_recurrent_kda")
      << "64 packed sequences of one token are short";
}

TEST(KdaCase, ExampleOfTheHeaderReadsLikeKeywords) {
  const KdaCase call = make_kda_case({.T = 8});
  const auto [o, state] = fla::kda({.q = call.args.q,
                                    .k = call.args.k,
                                    .v = call.args.v,
                                    .g = call.args.g,
                                    .beta = call.args.beta,
                                    .output_final_state = true});
  EXPECT_EQ(o.size(1), 8);
  EXPECT_EQ(state.rank(), 4);
}

}  // namespace
