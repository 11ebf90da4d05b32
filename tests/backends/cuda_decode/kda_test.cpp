#include "fla/ops/kda/kda.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "tests/backends/cuda_decode/refusals.h"
#include "tests/core/error_text.h"
#include "tests/gpu/gpu.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/random_case.h"
#include "tools/cases/reference_of.h"
#include "tools/cases/token_tensors.h"
#include "tools/conformance/agreement.h"
#include "tools/conformance/device_call.h"
#include "tools/conformance/laid_out.h"

namespace {

using fla::BackendError;
using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla_test::error_text;

fla::Explanation::Row row_of(const KdaArgs& args, std::string_view function = "fused_recurrent_kda") {
  for (const fla::Explanation::Row& row : fla::explain("kda", function, args).rows) {
    if (row.name == "cuda_decode") return row;
  }
  return {};
}

/// The result of cuda_decode, which must take the call, on the host.
KdaResult decoded(const KdaArgs& host, DeviceIndices indices = DeviceIndices::on_device) {
  const fla::ScopedPolicy required({.require = {{"kda", "cuda_decode"}}});
  DeviceCall call(host, fla_test::kGpu, indices);
  const KdaResult result = call.bring_back(fla::kda(call.args()));
  EXPECT_EQ(call.damage(), "");
  return result;
}

class CudaDecode : public fla_test::GpuTest {};

TEST_F(CudaDecode, IsAskedFirst) {
  const fla_test::DecodeCall call;
  EXPECT_EQ(fla::explain("kda", "fused_recurrent_kda", call.args).selected, "cuda_decode");
  EXPECT_EQ(row_of(call.args).priority, 2);
}

TEST_F(CudaDecode, RefusesWithItsReasonThroughThePublicFunction) {
  const fla::ScopedPolicy required({.require = {{"kda", "cuda_decode"}}});
  for (const fla_test::Refusal& refusal : fla_test::refusals()) {
    fla_test::DecodeCall call;
    refusal.spoil(call);
    const fla::Explanation::Row row = row_of(call.args);
    EXPECT_EQ(row.state, "refused") << refusal.name;
    EXPECT_EQ(row.reason, refusal.reason) << refusal.name;
    EXPECT_EQ(error_text<BackendError>([&] { fla::fused_recurrent_kda(call.args); }),
              "kda.fused_recurrent_kda: backend cuda_decode is required and refused: " + refusal.reason)
        << refusal.name;
  }
}

TEST_F(CudaDecode, RefusesStridesOfWhatOtherOpsHave) {
  const fla::ScopedPolicy required(
      {.require = {{"simple_gla", "cuda_decode"}, {"dplr_delta_rule", "cuda_decode"}}});
  fla_test::OtherOpsCall call;
  EXPECT_EQ(
      error_text<BackendError>([&] { fla::fused_recurrent_simple_gla(call.with_backward_gamma()); }),
      std::string("simple_gla.fused_recurrent_simple_gla: backend cuda_decode is required and refused: ") +
          fla_test::OtherOpsCall::kBackwardGamma);
  for (const auto& [name, member] :
       {std::pair{"a", &fla::DplrDeltaRuleArgs::a}, {"b", &fla::DplrDeltaRuleArgs::b}}) {
    const fla::DplrDeltaRuleArgs far = call.with_far(member);
    EXPECT_EQ(
        error_text<BackendError>([&] { fla::fused_recurrent_dplr_delta_rule(far); }),
        "dplr_delta_rule.fused_recurrent_dplr_delta_rule: backend cuda_decode is required and refused: " +
            call.far_reason(name));
  }
}

TEST_F(CudaDecode, RefusesAGpuThatIsNotThere) {
  fla_test::DecodeCall call;
  call.put_on({fla::DeviceType::cuda, 99});
  EXPECT_EQ(row_of(call.args).reason, "requires a GPU that is there, got cuda:99");
}

TEST_F(CudaDecode, TakesEverythingElse) {
  for (const fla_test::Acceptance& acceptance : fla_test::acceptances()) {
    fla_test::DecodeCall call;
    acceptance.change(call);
    EXPECT_EQ(row_of(call.args).state, "selected") << acceptance.name;
  }
}

TEST_F(CudaDecode, HasNoChunkKda) {
  EXPECT_EQ(row_of(fla_test::DecodeCall().args, "chunk_kda").state, "not_implemented");
}

TEST_F(CudaDecode, GivesTheSameBitsForIndicesHereAndThere) {
  for (const bool write_indices : {false, true}) {
    const fla::cases::KdaCase call = fla::cases::make_kda_case({.B = 300,
                                                                .T = 1,
                                                                .H = 1,
                                                                .K = 64,
                                                                .V = 64,
                                                                .dtype = DType::bf16,
                                                                .pool = 700,
                                                                .write_indices = write_indices});
    EXPECT_TRUE(fla::conformance::same_bits(decoded(call.args, DeviceIndices::on_device),
                                            decoded(call.args, DeviceIndices::on_host)));
  }
}

TEST_F(CudaDecode, IsRightWithoutAnyState) {
  for (const std::int64_t K : {64, 128}) {
    const fla::cases::KdaCase call = fla::cases::make_kda_case(
        {.B = 3, .T = 1, .H = 2, .HV = 4, .K = K, .V = 64, .initial_state = false, .options = {}});
    EXPECT_EQ(
        fla::conformance::disagreement(decoded(call.args), fla::cases::reference_of(call.args), call.args),
        "");
  }
}

TEST_F(CudaDecode, TakesSeveralTokensAsStepsOneByOne) {
  for (const std::int64_t K : {64, 128}) {
    for (const bool v_first : {false, true}) {
      fla::cases::KdaSpec spec{.B = 3, .T = 8, .H = 2, .HV = 4, .K = K, .V = 128, .dtype = DType::bf16};
      spec.options.state_v_first = v_first;
      spec.options.use_qk_l2norm_in_kernel = true;
      const fla::cases::KdaCase call = fla::cases::make_kda_case(spec);
      const KdaResult all = decoded(call.args);
      EXPECT_EQ(fla::conformance::disagreement(all, fla::cases::reference_of(call.args), call.args), "");
      KdaResult one;
      for (std::int64_t t = 0; t < spec.T; ++t) {
        KdaArgs args = call.args;
        fla::cases::for_each_token_tensor(args,
                                          [&](fla::TensorView& tensor) { tensor = tensor.slice(1, t, 1); });
        if (t > 0) args.initial_state = one.final_state;
        const KdaResult next = decoded(args);
        EXPECT_LE(fla::cases::relative_error(all.o.view().slice(1, t, 1), next.o), 2e-3) << t;  // in bf16
        one = next;
      }
      EXPECT_LE(fla::cases::relative_error(all.final_state, one.final_state), 2e-6);
    }
  }
}

/// A state a token, some of them where the next step starts from.
TEST_F(CudaDecode, KeepsTheStatesOfDrafts) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t T : {1, 4, 8}) {
      fla::cases::KdaSpec spec{.B = 9, .T = T, .H = 2, .K = 128, .V = 128};
      spec.state_dtype = dtype;
      spec.pool = 128;
      spec.options.checkpoint_every = 1;
      spec.checkpoints = T;
      spec.checkpoint_indices = spec.accepted_tokens = true;
      const fla::cases::KdaCase call = fla::cases::make_kda_case(spec);
      for (const DeviceIndices indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
        EXPECT_EQ(fla::conformance::disagreement(decoded(call.args, indices),
                                                 fla::cases::reference_of(call.args), call.args),
                  "");
      }
    }
  }
}

TEST_F(CudaDecode, TakesMoreSequencesThanAGridHas) {
  const fla::cases::KdaCase call = fla::cases::make_kda_case({.B = 65535 + 3,
                                                              .T = 1,
                                                              .H = 1,
                                                              .K = 64,
                                                              .V = 64,
                                                              .dtype = DType::bf16,
                                                              .initial_state = false,
                                                              .options = {}});
  EXPECT_EQ(fla::conformance::disagreement(decoded(call.args), fla::original::fused_recurrent_kda(call.args),
                                           call.args),
            "");
}

/// Decodes in a graph, behind what `before` puts on the stream, and expects what decoding by itself gives.
void expect_the_same_in_a_graph(const std::function<void(cudaStream_t)>& before) {
  const fla::cases::KdaCase host = fla::cases::make_kda_case({.B = 3, .T = 1, .H = 2, .K = 128, .V = 128});
  const KdaResult expected = decoded(host.args);
  const fla::ScopedPolicy required({.require = {{"kda", "cuda_decode"}}});
  const fla_test::CudaStream stream;
  DeviceCall call(host.args, fla_test::kGpu);
  KdaArgs args = call.args();
  args.stream = stream.stream();
  const fla::Tensor o = fla::empty_on(args.v.shape(), args.v.dtype(), fla_test::kGpu, args.stream);
  const fla::Tensor state =
      fla::empty_on(args.initial_state.shape(), DType::f32, fla_test::kGpu, args.stream);
  stream.synchronize();
  args.out = o;
  args.final_state = state;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  fla::check_cuda(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal), "capturing");
  before(stream.handle());
  const KdaResult result = fla::kda(args);
  fla::check_cuda(cudaStreamEndCapture(stream.handle(), &graph), "capturing");
  fla::check_cuda(cudaGraphInstantiate(&executable, graph, 0), "making a graph");
  fla::check_cuda(cudaGraphLaunch(executable, stream.handle()), "launching a graph");
  stream.synchronize();
  EXPECT_TRUE(fla::conformance::same_bits({fla::copy_to(result.o, {}), fla::copy_to(result.final_state, {})},
                                          expected));
  fla::check_cuda(cudaGraphExecDestroy(executable), "destroying a graph");
  fla::check_cuda(cudaGraphDestroy(graph), "destroying a graph");
}

TEST_F(CudaDecode, MayBeTheFirstOfAGraph) {
  expect_the_same_in_a_graph([](cudaStream_t) {});
}

TEST_F(CudaDecode, MayComeBehindAMemsetInAGraph) {
  const auto memory = fla::allocate_on(fla_test::kGpu, 256, {});
  fla::synchronize(fla_test::kGpu);
  expect_the_same_in_a_graph([&](cudaStream_t stream) {
    fla::check_cuda(cudaMemsetAsync(memory.get(), 0, 256, stream), "setting memory");
  });
}

TEST_F(CudaDecode, MayComeBehindTwoStreamsInAGraph) {
  const auto memory = fla::allocate_on(fla_test::kGpu, 256, {});
  fla::synchronize(fla_test::kGpu);
  const fla_test::CudaStream other;
  cudaEvent_t forked = nullptr, joined = nullptr;
  fla::check_cuda(cudaEventCreate(&forked), "making an event");
  fla::check_cuda(cudaEventCreate(&joined), "making an event");
  expect_the_same_in_a_graph([&](cudaStream_t stream) {
    fla::check_cuda(cudaEventRecord(forked, stream), "forking");
    fla::check_cuda(cudaStreamWaitEvent(other.handle(), forked), "forking");
    fla::check_cuda(cudaMemsetAsync(memory.get(), 0, 128, stream), "setting memory");
    fla::check_cuda(cudaMemsetAsync(static_cast<char*>(memory.get()) + 128, 0, 128, other.handle()),
                    "setting memory");
    fla::check_cuda(cudaEventRecord(joined, other.handle()), "joining");
    fla::check_cuda(cudaStreamWaitEvent(stream, joined), "joining");
  });
  fla::check_cuda(cudaEventDestroy(forked), "destroying an event");
  fla::check_cuda(cudaEventDestroy(joined), "destroying an event");
}

}  // namespace
