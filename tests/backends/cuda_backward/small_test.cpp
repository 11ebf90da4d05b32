#include <gtest/gtest.h>

#include "tests/backends/cuda_backward/backward_test.h"
#include "tests/gpu/allocated_apart.h"

/// A few small calls of every size and option: what compute-sanitizer watches, which makes each of them a
/// hundred times dearer.
namespace {

using fla::DType;
using fla::cases::DataKind;
using fla_test::expect_right;
using fla_test::spec_of;

template <class Args>
class SmallCudaBackward : public fla_test::AllocatedApart<fla_test::OnHopper<testing::Test>> {};
TYPED_TEST_SUITE(SmallCudaBackward, fla_test::BackwardOps, fla_test::OpName);

TYPED_TEST(SmallCudaBackward, IsRightForPackedSequencesAndGroupsOfHeads) {
  auto spec = spec_of<TypeParam>(0);
  spec.HV = 2;
  spec.lengths = {5, 0, 70, 64};
  spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
  expect_right(spec, "packed");
}

TYPED_TEST(SmallCudaBackward, IsRightForSmallHeads) {
  auto spec = spec_of<TypeParam>(67);
  spec.B = 2, spec.HV = 2, spec.K = spec.V = 64, spec.dtype = DType::f16;
  spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
  spec.options.lower_bound = -5.0f;
  spec.options.state_v_first = true;
  expect_right(spec, "small heads");
}

TYPED_TEST(SmallCudaBackward, IsRightForMoreHeadsThanMultiprocessorsHaveRoomFor) {
  auto spec = spec_of<TypeParam>(66);
  spec.H = 17, spec.K = 64;
  spec.options.use_gate_in_kernel = spec.options.use_beta_sigmoid_in_kernel = true;
  spec.options.lower_bound = -5.0f;
  expect_right(spec, "17 heads");
}

TYPED_TEST(SmallCudaBackward, IsRightWithoutStatesAndWithResets) {
  auto spec = spec_of<TypeParam>(130);
  spec.data = DataKind::resets, spec.initial_state = false;
  spec.options.output_final_state = false;
  expect_right(spec, "resets");
}

TYPED_TEST(SmallCudaBackward, IsRightForASequenceThatIsCut) {
  auto spec = spec_of<TypeParam>(4100);
  spec.V = 64, spec.data = DataKind::slow;
  expect_right(spec, "cut");
}

TYPED_TEST(SmallCudaBackward, RunsNothingForNoTokens) { expect_right(spec_of<TypeParam>(0), "no tokens"); }

}  // namespace
