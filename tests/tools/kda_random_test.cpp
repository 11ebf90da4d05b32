#include "tools/cases/kda_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/cases/accuracy.h"

namespace fla::cases {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

TEST(KdaRandom, SameSeedMakesTheSameBits) {
  const KdaSpec spec{.HV = 4, .dtype = DType::bf16, .data = KdaData::mixed};
  const KdaCase a = make_kda_case(spec), b = make_kda_case(spec);
  ASSERT_EQ(a.memory.size(), b.memory.size());
  for (std::size_t i = 0; i < a.memory.size(); ++i) EXPECT_TRUE(same_bits(a.memory[i], b.memory[i])) << i;
}

TEST(KdaRandom, AnotherSeedMakesOtherBits) {
  const KdaCase a = make_kda_case({.seed = 1}), b = make_kda_case({.seed = 2});
  EXPECT_FALSE(same_bits(a.memory[0], b.memory[0]));
}

TEST(KdaRandom, EveryKindIsACallThatKdaTakes) {
  for (const KdaData data : kAllKdaData) {
    for (const bool fused : {false, true}) {
      for (const bool in_kernel : {false, true}) {
        KdaSpec spec{
            .HV = 4, .lengths = {5, 0, 12}, .dtype = DType::f16, .data = data, .fused_projection = fused};
        spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = in_kernel;
        const KdaCase made = make_kda_case(spec);
        EXPECT_NO_THROW(validate_arguments(made.args)) << name_of(data);
        EXPECT_EQ(made.args.q.is_contiguous(), !fused);
      }
    }
  }
}

TEST(KdaRandom, NamesLeadBackToTheirKind) {
  for (const KdaData data : kAllKdaData) EXPECT_EQ(kda_data_from_name(name_of(data)), data);
  EXPECT_EQ(kda_data_from_name("no such kind"), std::nullopt);
}

TEST(KdaRandom, KeysAreNormalisedUnlessTheKernelDoesIt) {
  const auto norm_of_first_key = [](const KdaCase& made) {
    double sum = 0;
    for (std::int64_t i = 0; i < made.args.k.size(3); ++i) sum += std::pow(element(made.args.k, i), 2);
    return std::sqrt(sum);
  };
  KdaSpec spec;
  EXPECT_NEAR(norm_of_first_key(make_kda_case(spec)), 1, 1e-5);
  spec.options.use_qk_l2norm_in_kernel = true;
  EXPECT_GT(norm_of_first_key(make_kda_case(spec)), 2);
}

TEST(KdaRandom, RepeatedKeysRepeatAndAreRewrittenWhole) {
  const KdaCase made = make_kda_case({.T = 9, .H = 1, .data = KdaData::repeated_keys});
  for (std::int64_t t = 0; t < 9; ++t) {
    EXPECT_EQ(element(made.args.k, t * made.args.k.stride(1)), element(made.args.k, 0));
    EXPECT_EQ(element(made.args.beta, t), 1);
  }
}

}  // namespace
}  // namespace fla::cases
