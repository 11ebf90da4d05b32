#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cuda_backward/backward.h"
#include "fla/ops/recurrence/call_of.h"
#include "tests/emulation/block.h"
#include "tests/emulation/recurrence/poisoned.h"
#include "tests/ops/recurrence/op_name.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/reference_of.h"

/// cuda_backward's kernels, compiled by the C++ compiler and run on the CPU.
namespace {

using fla::DType;
using fla::cases::DataKind;
using fla::emulation::block::Schedule;
using fla_test::poison;
using fla_test::workspace_of;

template <class Args>
fla::RecurrenceGradients run(const Args& args, int multiprocessors = 132) {
  fla::RecurrenceGradients gradients = fla::make_result(args);
  for (const auto& [name, gradient] : fla::cases::named_gradients(gradients)) poison(gradient);
  const fla::BackwardCall call = fla::call_of(args, gradients);
  const auto workspace = workspace_of(fla::cuda_backward::workspace_bytes(call));
  EXPECT_EQ(fla::cuda_backward::launch(call, workspace.get(), multiprocessors, nullptr), cudaSuccess);
  return gradients;
}

template <class Args>
class EmulatedCudaBackward : public testing::Test {
 public:
  using Spec = fla::cases::CaseSpec<Args>;

  ~EmulatedCudaBackward() override { fla::emulation::block::set_schedule({}); }

  static Spec spec(DType dtype = DType::bf16) {
    Spec spec{.T = 150, .H = 1, .K = 128, .V = 128, .dtype = dtype};
    spec.options.use_qk_l2norm_in_kernel = true;
    return spec;
  }

  /// Sequences that are empty, short and long, groups of heads and many heads, both sizes, every kind of
  /// gates.
  static std::vector<Spec> specs() {
    std::vector<Spec> specs(10, spec());
    specs[1].lengths = {5, 0, 70, 64};
    specs[1].options.use_gate_in_kernel = specs[1].options.use_beta_sigmoid_in_kernel = true;
    specs[1].options.allow_neg_eigval = true;
    specs[2].B = 2, specs[2].T = 67, specs[2].HV = 2, specs[2].K = specs[2].V = 64;
    specs[2].options.use_gate_in_kernel = specs[2].options.use_beta_sigmoid_in_kernel = true;
    specs[2].options.lower_bound = -5;
    specs[2].options.state_v_first = true;
    specs[3].data = DataKind::slow, specs[3].T = 200;
    specs[4].data = DataKind::resets, specs[4].dtype = DType::f16, specs[4].V = 64;
    specs[5].data = DataKind::strong;
    specs[6].data = DataKind::resets, specs[6].T = 70;
    specs[6].options.use_gate_in_kernel = specs[6].options.use_beta_sigmoid_in_kernel = true;
    specs[7].data = DataKind::repeated_keys, specs[7].T = 130;
    specs[8].data = DataKind::bound, specs[8].T = 70;
    specs[8].options.use_gate_in_kernel = specs[8].options.use_beta_sigmoid_in_kernel = true;
    specs[8].options.lower_bound = -5;
    specs[9].T = 66, specs[9].H = 17,
    specs[9].K = 64;  // more heads than multiprocessors have room for at once
    return specs;
  }
};

using Ops = testing::Types<fla::KdaArgs, fla::GatedDeltaRuleArgs>;
TYPED_TEST_SUITE(EmulatedCudaBackward, Ops, fla_test::OpName);

TYPED_TEST(EmulatedCudaBackward, AgreesWithTheReference) {
  int number = 0;
  for (const auto& spec : this->specs()) {
    const fla::cases::BackwardCase<TypeParam> call(spec);
    const auto reference = fla::cases::named_gradients(fla::cases::gradient_reference_of(call.args));
    const auto gradients = fla::cases::named_gradients(run(call.args));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].second.defined()) continue;
      const double error = fla::cases::gradient_error(gradients[i].second, reference[i].second);
      // A sum over tokens of which little is left.
      const bool cancels = spec.data == DataKind::resets && gradients[i].first == "dA_log";
      EXPECT_LE(error, cancels ? 1.5e-2 : 5e-3) << "call " << number << ": " << gradients[i].first;
    }
    ++number;
  }
}

/// Long enough for four segments, one of them shorter; gates that a segment does not forget what was before
/// by.
TYPED_TEST(EmulatedCudaBackward, CarriesSegmentsOfLongSequencesAtOnce) {
  auto spec = this->spec();
  spec.lengths = {70, 4100, 3}, spec.V = 64, spec.data = DataKind::slow;
  const fla::cases::BackwardCase<TypeParam> call(spec);
  const auto reference = fla::cases::named_gradients(fla::cases::gradient_reference_of(call.args));
  const auto gradients = fla::cases::named_gradients(run(call.args));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].second.defined()) continue;
    EXPECT_LE(fla::cases::gradient_error(gradients[i].second, reference[i].second), 5e-3)
        << gradients[i].first;
  }
}

TYPED_TEST(EmulatedCudaBackward, FollowsUpstreamGradientsByPowersOfTwoExactly) {
  auto spec = this->spec();
  spec.T = 70, spec.HV = 2, spec.data = DataKind::slow;
  spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
  const fla::cases::BackwardCase<TypeParam> call(spec);
  const auto plain = fla::cases::named_gradients(run(call.args));
  for (const fla::Tensor& tensor : {call.upstream, call.of_state}) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      fla::cases::store(tensor, i, std::ldexp(fla::cases::element(tensor, i), -40));
  }
  const auto scaled = fla::cases::named_gradients(run(call.args));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const auto& [name, gradient] = plain[i];
    for (std::int64_t at = 0; at < gradient.numel(); ++at) {
      ASSERT_EQ(fla::cases::element(scaled[i].second, at), std::ldexp(fla::cases::element(gradient, at), -40))
          << name << ", element " << at;
    }
  }
}

TYPED_TEST(EmulatedCudaBackward, LeavesTheStatesGradientWithoutTokens) {
  auto spec = this->spec();
  spec.T = 0;
  const fla::cases::BackwardCase<TypeParam> call(spec);
  const fla::Tensor gradient = run(call.args).dinitial_state;
  ASSERT_EQ(gradient.numel(), call.of_state.numel());
  for (std::int64_t i = 0; i < gradient.numel(); ++i)
    ASSERT_EQ(fla::cases::element(gradient, i), fla::cases::element(call.of_state, i)) << i;
}

template <class Gradients>
void expect_same_bits(const Gradients& gradients, const Gradients& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const fla::Tensor& gradient = expected[i].second;
    if (!gradient.defined()) continue;
    const auto bytes = static_cast<std::size_t>(gradient.numel()) * size_of(gradient.dtype());
    EXPECT_EQ(std::memcmp(gradient.data(), gradients[i].second.data(), bytes), 0) << expected[i].first;
  }
}

/// With one multiprocessor a block works on all heads that share keys.
TYPED_TEST(EmulatedCudaBackward, HasTheSameBitsWhicheverBlocksWorkOnAGroup) {
  for (const int group : {2, 3}) {
    auto spec = this->spec();
    spec.T = group == 2 ? 70 : 130, spec.HV = group, spec.V = group == 2 ? 128 : 64;
    const fla::cases::BackwardCase<TypeParam> call(spec);
    expect_same_bits(fla::cases::named_gradients(run(call.args, 1)),
                     fla::cases::named_gradients(run(call.args)));
  }
}

TYPED_TEST(EmulatedCudaBackward, HasTheSameBitsInOtherOrdersOfThreadsAndWithLateCopies) {
  auto spec = this->spec();
  spec.lengths = {70, 3}, spec.HV = 2;
  const fla::cases::BackwardCase<TypeParam> call(spec);
  for (const int multiprocessors : {132, 1}) {
    const auto expected = fla::cases::named_gradients(run(call.args, multiprocessors));
    for (const Schedule& schedule :
         {Schedule{.order = Schedule::Order::backwards, .late_copies = true},
          Schedule{.order = Schedule::Order::rotating},
          Schedule{.order = Schedule::Order::first_warp_first, .late_copies = true},
          Schedule{.order = Schedule::Order::last_warp_first}}) {
      fla::emulation::block::set_schedule(schedule);
      expect_same_bits(fla::cases::named_gradients(run(call.args, multiprocessors)), expected);
    }
    fla::emulation::block::set_schedule({});
  }
}

}  // namespace
