#include "tools/cases/random_case.h"

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
  const KdaSpec spec{.HV = 4, .dtype = DType::bf16, .data = DataKind::mixed};
  const KdaCase a = make_kda_case(spec), b = make_kda_case(spec);
  ASSERT_EQ(a.memory.size(), b.memory.size());
  for (std::size_t i = 0; i < a.memory.size(); ++i) EXPECT_TRUE(same_bits(a.memory[i], b.memory[i])) << i;
}

TEST(KdaRandom, AnotherSeedMakesOtherBits) {
  const KdaCase a = make_kda_case({.seed = 1}), b = make_kda_case({.seed = 2});
  EXPECT_FALSE(same_bits(a.memory[0], b.memory[0]));
}

TEST(KdaRandom, EveryKindIsACallThatKdaTakes) {
  for (const DataKind data : kAllDataKinds) {
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
  for (const DataKind data : kAllDataKinds) EXPECT_EQ(data_kind_from_name(name_of(data)), data);
  EXPECT_EQ(data_kind_from_name("no such kind"), std::nullopt);
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
  const KdaCase made = make_kda_case({.T = 9, .H = 1, .data = DataKind::repeated_keys});
  for (std::int64_t t = 0; t < 9; ++t) {
    EXPECT_EQ(element(made.args.k, t * made.args.k.stride(1)), element(made.args.k, 0));
    EXPECT_EQ(element(made.args.beta, t), 1);
  }
}

TEST(KdaRandom, PoolsAreCallsThatKdaTakesInPlaceAndApart) {
  for (const std::int64_t slots : {0, 3, 10, 40}) {
    for (const bool write_indices : {false, true}) {
      for (const bool states : {false, true}) {
        for (std::uint64_t seed = 1; seed < 20; ++seed) {
          const KdaCase made = make_kda_case({.B = 12,
                                              .T = 1,
                                              .H = 1,
                                              .K = 2,
                                              .V = 3,
                                              .index_dtype = seed % 2 == 0 ? DType::i32 : DType::i64,
                                              .initial_state = states,
                                              .pool = slots,
                                              .write_indices = write_indices,
                                              .seed = seed});
          EXPECT_NO_THROW(validate_arguments(made.args));
          EXPECT_EQ(made.args.final_state.size(0), slots);
          EXPECT_EQ(made.args.state_write_indices.defined(), write_indices);
          if (!states) continue;
          KdaArgs in_place = made.args;
          in_place.final_state = in_place.initial_state;
          EXPECT_NO_THROW(validate_arguments(in_place));
        }
      }
    }
  }
}

TEST(KdaRandom, PoolsHaveSequencesOfEveryKind) {
  const KdaCase made =
      make_kda_case({.B = 60, .T = 1, .H = 1, .K = 1, .V = 1, .pool = 200, .write_indices = true});
  int skipped = 0, unwritten = 0, copied = 0, shared = 0;
  for (std::int64_t n = 0; n < 60; ++n) {
    const auto [read, write] = slots_of(made.args, n);
    ++(read < 0 ? skipped : write < 0 ? unwritten : copied);
    if (n > 0 && read >= 0 && read == slots_of(made.args, n - 1).read) ++shared;
  }
  for (const int count : {skipped, unwritten, copied, shared}) EXPECT_GT(count, 3);
}

}  // namespace
}  // namespace fla::cases
