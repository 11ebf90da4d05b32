#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/gpu/counting_allocator.h"
#include "tests/gpu/cuda_graph.h"
#include "tests/gpu/gpu.h"
#include "tests/ops/recurrence/op_name.h"
#include "tests/ops/step/step_call.h"
#include "tools/conformance/device_call.h"
#include "tools/conformance/laid_out.h"

/// Steps of whole layers on a GPU: cuda_decode's one kernel, and the original three.
namespace {

using fla::DType;
using fla::conformance::bytes_of;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla_test::CountingAllocator;
using fla_test::CudaGraph;
using fla_test::CudaStream;
using fla_test::kGpu;
using fla_test::run_original_step;
using fla_test::run_step;
using fla_test::step_specs;
using fla_test::StepSpec;

template <class Args>
class StepOnGpu : public fla_test::GpuTest {
 public:
  using Call = fla_test::StepCall<Args>;
  using Run = fla::StepResult (*)(const Args&);
  static constexpr std::array<Run, 2> kRuns{[](const Args& args) { return run_step(args); },
                                            [](const Args& args) { return run_original_step(args); }};

  /// On the GPU, where nothing but outputs and pools may be written.
  static void run_there(Run run, const Args& host, DeviceIndices indices = DeviceIndices::on_device) {
    DeviceCall<Args> there(host, kGpu, indices);
    (void)there.bring_back(run(there.args()));
    EXPECT_EQ(there.damage(), "");
  }
};
TYPED_TEST_SUITE(StepOnGpu, fla_test::StepTypes, fla_test::OpName);

TYPED_TEST(StepOnGpu, AgreesWithFloat64) {
  for (const auto& [K, V] : {std::pair{64, 64}, {128, 128}, {64, 128}, {128, 64}, {40, 24}}) {
    for (const StepSpec& spec : step_specs(K, V)) {
      for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
        for (const auto run : this->kRuns) {
          const typename TestFixture::Call call(spec);
          const auto reference = fla::cases::reference_of(call.args);
          this->run_there(run, call.args, indices);
          fla_test::expect_agrees(call.args, reference, spec);
        }
      }
    }
  }
}

TYPED_TEST(StepOnGpu, CudaDecodeTakesTheStepsOfServers) {
  for (const StepSpec& spec : step_specs(128, 128)) {
    const typename TestFixture::Call call(spec);
    const DeviceCall<TypeParam> there(call.args, kGpu);
    EXPECT_EQ(fla::explain(TypeParam::kOp.name, TypeParam::kOp.name, there.args()).selected, "cuda_decode")
        << spec.text();
  }
}

TYPED_TEST(StepOnGpu, AServersBatchAgreesWithFloat64) {
  for (const std::int64_t HV : {12, 24}) {
    StepSpec spec{.B = 33, .H = 12, .HV = HV, .K = 128, .V = 128, .dtype = DType::bf16};
    spec.conv_dtype = spec.z_dtype = spec.state_dtype = DType::bf16;
    const typename TestFixture::Call call(spec);
    const auto reference = fla::cases::reference_of(call.args);
    this->run_there(this->kRuns[0], call.args);
    fla_test::expect_agrees(call.args, reference, spec);
  }
}

TYPED_TEST(StepOnGpu, ASequenceHasTheSameBitsAlone) {
  const StepSpec spec{.B = 3, .H = 2, .HV = 4, .K = 128, .V = 128};
  for (const auto run : this->kRuns) {
    const typename TestFixture::Call all(spec), alone(spec);
    this->run_there(run, all.args);
    TypeParam one = alone.args;
    for (fla::TensorView* tensor : {&one.x, &one.conv_state, &one.g, &one.beta, &one.z, &one.state, &one.out})
      *tensor = tensor->slice(0, 1, 1);
    this->run_there(run, one);
    EXPECT_EQ(bytes_of(one.out), bytes_of(all.out.view().slice(0, 1, 1)));
    EXPECT_EQ(bytes_of(one.state), bytes_of(all.state.view().slice(0, 1, 1)));
    EXPECT_EQ(bytes_of(one.conv_state), bytes_of(all.conv_state.view().slice(0, 1, 1)));
  }
}

TYPED_TEST(StepOnGpu, SlotsOutOfRangeSkipTheirSequence) {
  StepSpec right{.B = 3, .K = 64, .V = 64, .slots = {2, -1, 0}, .pool = 3}, wrong = right;
  wrong.slots[1] = 3;
  for (const auto run : this->kRuns) {
    const typename TestFixture::Call call(wrong), expected(right);
    DeviceCall<TypeParam> there(call.args, kGpu);
    {
      const fla_test::ReloadedEnvironment checked({{"FLA_CHECK_INDICES", "1"}});
      EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] { (void)run(there.args()); }),
                std::string(TypeParam::kOp.name) +
                    ": state_indices: expected entries below P=3, got state_indices[1]=3");
    }
    this->run_there(run, expected.args);
    (void)there.bring_back(run(there.args()));
    EXPECT_EQ(there.damage(), "");
    EXPECT_EQ(bytes_of(call.out), bytes_of(expected.out));
    EXPECT_EQ(bytes_of(call.state), bytes_of(expected.state));
    EXPECT_EQ(bytes_of(call.conv_state), bytes_of(expected.conv_state));
  }
}

TYPED_TEST(StepOnGpu, IsCapturedAndAllocatesNothing) {
  const StepSpec spec{.B = 3, .K = 64, .V = 64, .slots = {2, -1, 0}, .pool = 3};
  const std::size_t kernels[] = {1, 3};
  for (const std::size_t which : {0, 1}) {
    const auto run = this->kRuns[which];
    const typename TestFixture::Call call(spec), expected(spec);
    this->run_there(run, expected.args);
    const CudaStream stream;
    DeviceCall<TypeParam> there(call.args, kGpu);
    TypeParam args = there.args();
    args.stream = stream.stream();
    const CountingAllocator allocator;
    const CudaGraph graph(stream, cudaStreamCaptureModeGlobal, [&] { (void)run(args); });
    graph.launch();
    stream.synchronize();
    EXPECT_EQ(allocator.allocations(), 0);
    EXPECT_EQ(graph.nodes().size(), kernels[which]);
    (void)there.bring_back({});
    EXPECT_EQ(there.damage(), "");
    EXPECT_EQ(bytes_of(call.out), bytes_of(expected.out));
    EXPECT_EQ(bytes_of(call.state), bytes_of(expected.state));
    EXPECT_EQ(bytes_of(call.conv_state), bytes_of(expected.conv_state));
  }
}

}  // namespace
