#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "backends/cuda_decode/decode.h"
#include "fla/ops/step/call_of.h"
#include "fla/ops/step/cuda_kernels.h"
#include "tests/emulation/block.h"
#include "tests/emulation/recurrence/poisoned.h"
#include "tests/ops/common/laid_out_call.h"
#include "tests/ops/recurrence/op_name.h"
#include "tests/ops/step/step_call.h"

/// Steps of whole layers by the kernels for GPUs, compiled by the C++ compiler and run on the CPU.
namespace {

using fla::DType;
using fla::conformance::bytes_of;
using fla::conformance::Layout;
using fla::emulation::block::Schedule;
using fla_test::LaidOutCall;
using fla_test::step_specs;
using fla_test::StepSpec;

/// A lowered call with a workspace that holds NaNs before.
template <class Args>
void run_three(const Args& args, const fla::common::Indices* slots = nullptr) {
  const fla::step::Arguments all = fla::step::arguments_of(args);
  const fla::StepResult result = fla::make_result(args);
  const fla::StepCall sizes = fla::step::call_of(all, {});
  const auto workspace = fla_test::workspace_of(fla::cuda::step_workspace(sizes));
  fla::StepCall call = fla::step::call_of(all, result, fla::cuda::between_in(sizes, workspace.get()));
  if (slots != nullptr) call.conv.read_slots = *slots;
  const auto [error, launched] = fla::cuda::launch_step(call, workspace.get(), nullptr);
  EXPECT_EQ(error, cudaSuccess);
  EXPECT_EQ(launched, 2);
}
template <class Args>
void run_fused(const Args& args, const fla::common::Indices* slots = nullptr) {
  fla::StepCall call = fla::step::call_of(fla::step::arguments_of(args), fla::make_result(args));
  if (slots != nullptr) call.recurrence.read_slots = *slots;
  const auto workspace = fla_test::workspace_of(4096);
  EXPECT_EQ(fla::cuda::launch_layer_step(call, workspace.get(), true, nullptr), cudaSuccess);
}

template <class Args>
class EmulatedStep : public testing::Test {
 public:
  using Call = fla_test::StepCall<Args>;
  static constexpr auto kRuns = {run_three<Args>, run_fused<Args>};
  ~EmulatedStep() override { fla::emulation::block::set_schedule({}); }
};
TYPED_TEST_SUITE(EmulatedStep, fla_test::StepTypes, fla_test::OpName);

TYPED_TEST(EmulatedStep, AgreesWithTheReference) {
  for (const auto& [K, V] : {std::pair{64, 64}, {128, 128}, {64, 128}, {128, 64}}) {
    for (const StepSpec& spec : step_specs(K, V)) {
      for (const auto run : this->kRuns) {
        const typename TestFixture::Call call(spec);
        const auto reference = fla::cases::reference_of(call.args);
        run(call.args, nullptr);
        fla_test::expect_agrees(call.args, reference, spec);
      }
    }
  }
}

TYPED_TEST(EmulatedStep, TheThreeKernelsTakeAnySize) {
  for (const StepSpec& spec : step_specs(24, 40)) {
    const typename TestFixture::Call call(spec);
    const auto reference = fla::cases::reference_of(call.args);
    run_three(call.args);
    fla_test::expect_agrees(call.args, reference, spec);
  }
}

TYPED_TEST(EmulatedStep, StridesDoNotChangeBits) {
  for (const auto run : this->kRuns) {
    for (const StepSpec& spec : step_specs(64, 64)) {
      const typename TestFixture::Call call(spec), expected(spec);
      TypeParam args = call.args;
      const LaidOutCall laid(args, &Layout::padded);
      TypeParam strided = laid.args;
      strided.state = call.args.state;  // cuda_decode reads 16 bytes of it at once
      run(expected.args, nullptr);
      run(strided, nullptr);
      EXPECT_EQ(bytes_of(strided.out), bytes_of(expected.out)) << spec.text();
      EXPECT_EQ(bytes_of(strided.state), bytes_of(expected.state)) << spec.text();
      EXPECT_EQ(bytes_of(strided.conv_state), bytes_of(expected.conv_state)) << spec.text();
      EXPECT_TRUE(laid.intact()) << spec.text();
    }
  }
}

TYPED_TEST(EmulatedStep, ASequenceHasTheSameBitsAlone) {
  const StepSpec spec{.B = 3, .H = 2, .HV = 4};
  for (const auto run : this->kRuns) {
    const typename TestFixture::Call all(spec), alone(spec);
    run(all.args, nullptr);
    TypeParam one = alone.args;
    for (fla::TensorView* tensor : {&one.x, &one.conv_state, &one.g, &one.beta, &one.z, &one.state, &one.out})
      *tensor = tensor->slice(0, 1, 1);
    run(one, nullptr);
    EXPECT_EQ(bytes_of(one.out), bytes_of(all.out.view().slice(0, 1, 1)));
    EXPECT_EQ(bytes_of(one.state), bytes_of(all.state.view().slice(0, 1, 1)));
    EXPECT_EQ(bytes_of(one.conv_state), bytes_of(all.conv_state.view().slice(0, 1, 1)));
  }
}

TYPED_TEST(EmulatedStep, SlotsOutOfRangeSkipTheirSequence) {
  // As they may be on a device, where nobody looks at them before the kernel does.
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  const StepSpec spec{.B = 3, .slots = {0, 1, 2}, .pool = 3};
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-7}, kFar, -kFar, std::int64_t{1} << 32}) {
    const std::vector<std::int64_t> entries{0, bad, 2};
    const fla::common::Indices slots{.data = entries.data(), .wide = true};
    for (const auto run : this->kRuns) {
      const typename TestFixture::Call call(spec), right(spec), before(spec);
      for (const fla::Tensor* tensor : {&call.x, &call.z}) {  // what a skipped sequence has is not read
        const std::int64_t row = tensor->numel() / 3;
        for (std::int64_t i = row; i < 2 * row; ++i)
          fla::cases::store(*tensor, i, std::numeric_limits<double>::quiet_NaN());
      }
      const LaidOutCall laid(call.args, &Layout::padded);
      TypeParam args = laid.args;
      args.state = call.args.state;
      run(args, &slots);
      run(right.args, nullptr);
      EXPECT_TRUE(laid.intact());
      const fla::Tensor zeros = fla::Tensor::zeros({1, 1, spec.HV, spec.V}, DType::f32);
      for (const std::int64_t n : {0, 1, 2}) {
        const auto part = [&](const fla::TensorView& tensor) { return bytes_of(tensor.slice(0, n, 1)); };
        EXPECT_EQ(part(args.out), n == 1 ? bytes_of(zeros) : part(right.out)) << bad;
        EXPECT_EQ(part(args.state), part(n == 1 ? before.state : right.state)) << bad;
        EXPECT_EQ(part(args.conv_state), part(n == 1 ? before.conv_state : right.conv_state)) << bad;
      }
    }
  }
}

TYPED_TEST(EmulatedStep, TheFusedKernelHasTheSameBitsInAnyOrderOfThreads) {
  for (const StepSpec& spec : step_specs(64, 64)) {
    fla::emulation::block::set_schedule({});
    const typename TestFixture::Call expected(spec);
    run_fused(expected.args);
    for (const auto order : {Schedule::Order::backwards, Schedule::Order::rotating,
                             Schedule::Order::first_warp_first, Schedule::Order::last_warp_first}) {
      fla::emulation::block::set_schedule({.order = order});
      const typename TestFixture::Call call(spec);
      run_fused(call.args);
      EXPECT_EQ(bytes_of(call.out), bytes_of(expected.out)) << static_cast<int>(order);
      EXPECT_EQ(bytes_of(call.state), bytes_of(expected.state)) << static_cast<int>(order);
      EXPECT_EQ(bytes_of(call.conv_state), bytes_of(expected.conv_state)) << static_cast<int>(order);
    }
  }
}

}  // namespace
