#include "fla/ops/kda/kda.h"

#include <gtest/gtest.h>

#include <string>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/backends/cuda_backward/backward_test.h"
#include "tests/backends/cuda_backward/refusals.h"
#include "tests/backends/wanted_workspace.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"

/// cuda_backward as a backend: what it takes, what turns it off, what it is given to work in.
namespace {

using fla::BackendError;
using fla::KdaArgs;
using fla::KdaBackwardArgs;
using fla::conformance::DeviceCall;
using fla_test::error_text;
using fla_test::GradientCall;
using fla_test::kGpu;

fla::Explanation::Row row_of(const KdaBackwardArgs& args) {
  for (const fla::Explanation::Row& row : fla::explain("kda", "chunk_kda_backward", args).rows) {
    if (row.name == "cuda_backward") return row;
  }
  return {};
}

class CudaBackward : public fla_test::OnHopper<testing::Test> {};

TEST_F(CudaBackward, IsAskedFirst) {
  EXPECT_EQ(fla::explain("kda", "chunk_kda_backward", GradientCall().args).selected, "cuda_backward");
  EXPECT_EQ(row_of(GradientCall().args).priority, 2);
}

TEST_F(CudaBackward, RefusesWithItsReasonThroughThePublicFunction) {
  const fla::ScopedPolicy required({.require = {{"kda", "cuda_backward"}}});
  for (const fla_test::Refusal& refusal : fla_test::refusals()) {
    GradientCall call;
    refusal.spoil(call);
    const fla::Explanation::Row row = row_of(call.args);
    EXPECT_EQ(row.state, "refused") << refusal.name;
    EXPECT_EQ(row.reason, refusal.reason) << refusal.name;
    EXPECT_EQ(error_text<BackendError>([&] { fla::chunk_kda_backward(call.args); }),
              "kda.chunk_kda_backward: backend cuda_backward is required and refused: " + refusal.reason)
        << refusal.name;
  }
}

TEST_F(CudaBackward, RefusesAGpuThatIsNotThere) {
  GradientCall call;
  call.put_on({fla::DeviceType::cuda, 99});
  EXPECT_EQ(row_of(call.args).reason, "requires a GPU that is there, got cuda:99");
}

TEST_F(CudaBackward, TakesEverythingElse) {
  for (const fla_test::Acceptance& acceptance : fla_test::acceptances()) {
    GradientCall call;
    acceptance.change(call);
    EXPECT_EQ(row_of(call.args).state, "selected") << acceptance.name;
  }
}

TEST_F(CudaBackward, HasGradientsAlone) {
  GradientCall call;
  const KdaArgs forward{
      .q = call.args.q, .k = call.args.k, .v = call.args.v, .g = call.args.g, .beta = call.args.beta};
  for (const char* function : {"chunk_kda", "fused_recurrent_kda"}) {
    EXPECT_EQ(fla_test::ChunkBackend<fla_test::kCudaBackward>::row_of(forward, function).state,
              "not_implemented")
        << function;
  }
}

TEST_F(CudaBackward, IsTurnedOffByItsVariable) {
  const GradientCall call;
  const fla_test::ReloadedEnvironment off({{"FLA_CUDA_BACKWARD", "0"}});
  EXPECT_EQ(row_of(call.args).state, "disabled");
  EXPECT_EQ(row_of(call.args).reason, "FLA_CUDA_BACKWARD=0");
  EXPECT_NE(fla::explain("kda", "chunk_kda_backward", call.args).selected, "cuda_backward");
}

// ---- The memory that it works in

std::size_t bytes_wanted(const KdaBackwardArgs& args) {
  return fla_test::bytes_wanted(args, [](const KdaBackwardArgs& given) { return row_of(given); });
}

TEST_F(CudaBackward, RefusesAWorkspaceThatDoesNotDo) {
  GradientCall call;
  fla_test::expect_workspaces_judged(call, [](const KdaBackwardArgs& args) { return row_of(args); });
}

TEST_F(CudaBackward, WorksInExactlyTheBytesThatItWantsWhateverTheyHold) {
  const fla::ScopedPolicy required({.require = {{"kda", "cuda_backward"}}});
  auto spec = fla_test::spec_of<KdaArgs>(0);
  spec.HV = 2;
  spec.lengths = {70, 0, 130};
  spec.options.use_gate_in_kernel = true;
  const fla::cases::BackwardCase<KdaArgs> made(spec);
  const fla::RecurrenceGradients expected = fla_test::gradients_of<KdaArgs>(made.args);
  using Indices = fla::conformance::DeviceIndices;
  for (const Indices indices : {Indices::on_device, Indices::on_host}) {
    DeviceCall<KdaBackwardArgs> call(made.args, kGpu, indices);
    KdaBackwardArgs args = call.args();
    fla::conformance::SurroundedMemory memory(kGpu, bytes_wanted(args));
    ASSERT_GT(memory.bytes(), 0u);
    args.workspace = {memory.data(), memory.bytes()};
    const fla::RecurrenceGradients gradients = call.bring_back(fla::chunk_kda_backward(args));
    EXPECT_EQ(call.damage(), "");
    (void)memory.fetch();
    EXPECT_TRUE(memory.intact_around());
    fla_test::expect_same_bits(gradients, expected, indices == Indices::on_host ? "on host" : "on device");
  }
}

}  // namespace
