#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/backends/cuda_backward/backward_test.h"
#include "tools/conformance/laid_out.h"

/// cuda_backward's gradients against the float64 reference, and what holds of their bits.
namespace {

using fla::DType;
using fla::Tensor;
using fla::TensorView;
using fla::cases::BackwardCase;
using fla::cases::DataKind;
using fla_test::expect_right;
using fla_test::gradients_of;
using fla_test::spec_of;

template <class Args>
class CudaBackwardNumbers : public fla_test::OnHopper<testing::Test> {};
TYPED_TEST_SUITE(CudaBackwardNumbers, fla_test::BackwardOps, fla_test::OpName);

TYPED_TEST(CudaBackwardNumbers, AreRightForAnyNumberOfTokens) {
  for (const std::int64_t T : {1, 17, 63, 64, 65, 200})
    expect_right(spec_of<TypeParam>(T), "T=" + std::to_string(T));
}

TYPED_TEST(CudaBackwardNumbers, AreRightForPackedSequences) {
  auto spec = spec_of<TypeParam>(0);
  spec.HV = 2;
  spec.lengths = {5, 0, 70, 64, 129, 0};
  expect_right(spec, "packed");
}

TYPED_TEST(CudaBackwardNumbers, AreRightForGroupsOfValueHeadsOfOtherSizes) {
  auto spec = spec_of<TypeParam>(130);
  spec.B = 2, spec.H = 2, spec.HV = 6, spec.K = 64;
  expect_right(spec, "K=64, V=128");
  spec.K = 128, spec.V = 64;
  expect_right(spec, "K=128, V=64");
  spec.K = 64;
  expect_right(spec, "K=64, V=64");
}

TYPED_TEST(CudaBackwardNumbers, AreRightInF16) {
  auto spec = spec_of<TypeParam>(150);
  spec.dtype = spec.gate_dtype = DType::f16;
  expect_right(spec, "f16");
}

TYPED_TEST(CudaBackwardNumbers, AreRightWithGatesAndStatesInBf16) {
  auto spec = spec_of<TypeParam>(150);
  spec.gate_dtype = spec.state_dtype = DType::bf16;
  expect_right(spec, "bf16 gates and states");
}

TYPED_TEST(CudaBackwardNumbers, AreRightForEitherLayoutOfStatesAndWithoutThem) {
  auto spec = spec_of<TypeParam>(100);
  spec.K = 64;
  spec.options.state_v_first = true;
  expect_right(spec, "states of [V, K]");
  spec.initial_state = false;
  expect_right(spec, "no initial state");
  spec.options.output_final_state = false;
  expect_right(spec, "no states");
}

TYPED_TEST(CudaBackwardNumbers, AreRightWithGatesInTheKernel) {
  auto spec = spec_of<TypeParam>(150);
  spec.B = 2, spec.HV = 2;
  spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
  expect_right(spec, "softplus gates");
  spec.options.allow_neg_eigval = true;
  spec.options.lower_bound = -5.0f;
  expect_right(spec, "bounded gates and doubled beta");
}

TYPED_TEST(CudaBackwardNumbers, AreRightForManyHeads) {
  auto spec = spec_of<TypeParam>(200);
  spec.H = 40;
  expect_right(spec, "40 heads");
}

/// So many blocks that each works on all heads of a group (gates of a number a token).
TYPED_TEST(CudaBackwardNumbers, AreRightForManyGroupsOfHeads) {
  auto spec = spec_of<TypeParam>(1000);
  spec.H = 16, spec.HV = 32, spec.K = spec.V = 64;
  spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
  expect_right(spec, "16 groups");
}

TYPED_TEST(CudaBackwardNumbers, AreRightForLongSequencesOfFewHeads) {
  for (const DataKind data : {DataKind::slow, DataKind::random}) {
    auto spec = spec_of<TypeParam>(0);
    spec.HV = 2, spec.data = data;
    spec.lengths = {70, 4100, 3, 3300};
    expect_right(spec, "long, " + std::string(name_of(data)));
  }
}

TYPED_TEST(CudaBackwardNumbers, AreRightForSlowStrongAndResettingGates) {
  for (const DataKind data : {DataKind::slow, DataKind::bound, DataKind::strong, DataKind::resets,
                              DataKind::mixed, DataKind::repeated_keys}) {
    auto spec = spec_of<TypeParam>(300);
    spec.data = data;
    expect_right(spec, std::string(name_of(data)));
  }
  auto spec = spec_of<TypeParam>(150);
  spec.data = DataKind::resets;
  spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
  expect_right(spec, "resetting softplus gates");
}

TYPED_TEST(CudaBackwardNumbers, AreThoseOfTheStateWithoutTokens) {
  auto spec = spec_of<TypeParam>(0);
  const BackwardCase<TypeParam> empty(spec);
  EXPECT_TRUE(fla_test::same_bits(gradients_of<TypeParam>(empty.args).dinitial_state, empty.of_state));
  spec.lengths = {0, 0};
  const BackwardCase<TypeParam> packed(spec);
  EXPECT_TRUE(fla_test::same_bits(gradients_of<TypeParam>(packed.args).dinitial_state, packed.of_state));
}

TYPED_TEST(CudaBackwardNumbers, HaveTheSameBitsTwice) {
  auto spec = spec_of<TypeParam>(0);
  spec.H = 8, spec.HV = 16;
  spec.lengths = {1000, 3, 0, 517};
  spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
  const BackwardCase<TypeParam> made(spec);
  const fla::RecurrenceGradients once = gradients_of<TypeParam>(made.args);
  for (int i = 0; i < 3; ++i)
    fla_test::expect_same_bits(once, gradients_of<TypeParam>(made.args), "run " + std::to_string(i));
}

template <class Args>
void expect_same_bits_alone(const std::vector<std::int64_t>& lengths) {
  auto spec = spec_of<Args>(0);
  spec.HV = 2;
  spec.lengths = lengths;
  spec.data = DataKind::slow;
  const BackwardCase<Args> made(spec);
  const auto together = fla::cases::named_gradients(gradients_of<Args>(made.args));
  std::int64_t begin = 0, n = 0;
  for (const std::int64_t tokens : spec.lengths) {
    const auto cut = [&](const TensorView& tensor, bool is_state) {
      return is_state ? tensor.slice(0, n, 1) : tensor.slice(1, begin, tokens);
    };
    auto one = made.args;
    one.cu_seqlens = {};
    for (TensorView* tensor : {&one.q, &one.k, &one.v, &one.g, &one.beta, &one.do_})
      *tensor = cut(*tensor, false);
    for (TensorView* state : {&one.initial_state, &one.dht}) *state = cut(*state, true);
    const auto alone = fla::cases::named_gradients(gradients_of<Args>(one));
    for (std::size_t i = 0; i < together.size(); ++i) {
      const auto& [name, gradient] = together[i];
      if (!gradient.defined()) continue;
      EXPECT_EQ(fla::conformance::bytes_of(cut(gradient, name == "dinitial_state")),
                fla::conformance::bytes_of(alone[i].second))
          << name << " of sequence " << n;
    }
    begin += tokens;
    ++n;
  }
}

TYPED_TEST(CudaBackwardNumbers, HaveTheSameBitsAloneAndInABatch) {
  expect_same_bits_alone<TypeParam>({70, 0, 200, 3});
}

TYPED_TEST(CudaBackwardNumbers, HaveTheSameBitsAloneAndInABatchWhereSequencesAreCut) {
  expect_same_bits_alone<TypeParam>({3300, 70, 4100});
}

TYPED_TEST(CudaBackwardNumbers, FollowUpstreamGradientsByPowersOfTwoExactly) {
  auto spec = spec_of<TypeParam>(150);
  spec.HV = 2;
  spec.data = DataKind::slow;
  spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
  const BackwardCase<TypeParam> made(spec);
  const auto scale_by = [&](int power) {
    for (const Tensor& tensor : {made.upstream, made.of_state}) {
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        fla::cases::store(tensor, i, std::ldexp(fla::cases::element(tensor, i), power));
    }
  };
  const auto plain = fla::cases::named_gradients(gradients_of<TypeParam>(made.args));
  for (const int power : {-40, 40}) {
    scale_by(power);
    const auto scaled = fla::cases::named_gradients(gradients_of<TypeParam>(made.args));
    scale_by(-power);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const auto& [name, gradient] = plain[i];
      for (std::int64_t at = 0; at < gradient.numel(); ++at) {
        ASSERT_EQ(fla::cases::element(scaled[i].second, at),
                  std::ldexp(fla::cases::element(gradient, at), power))
            << name << " by 2^" << power << ", element " << at;
      }
    }
  }
}

TYPED_TEST(CudaBackwardNumbers, HaveTheSameBitsWhenOneIsAskedFor) {
  auto spec = spec_of<TypeParam>(150);
  spec.HV = 2;
  const BackwardCase<TypeParam> made(spec);
  const fla::RecurrenceGradients all = gradients_of<TypeParam>(made.args);
  const Tensor dv = Tensor::empty(made.args.v.shape(), made.args.v.dtype());
  auto one = made.args;
  one.dv = dv;
  for (const auto& [name, gradient] : fla::cases::named_gradients(gradients_of<TypeParam>(one)))
    EXPECT_EQ(gradient.defined(), name == "dv") << name;
  EXPECT_TRUE(fla_test::same_bits(dv, all.dv));
}

}  // namespace
