#include <gtest/gtest.h>

#include "fla/ops/ops.h"
#include "tests/gpu/cuda_graph.h"
#include "tests/gpu/gpu.h"
#include "tests/ops/merge/merge_call.h"
#include "tests/ops/recurrence/summary_checks.h"
#include "tools/conformance/device_call.h"

/// Summaries and merge on a GPU.
namespace {

using fla::Tensor;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla_test::CudaGraph;
using fla_test::CudaStream;
using fla_test::kGpu;
using fla_test::MergeCall;

class SummaryOnGpu : public fla_test::GpuTest {};
class MergeOnGpu : public fla_test::GpuTest {};

/// The call on the GPU, where nothing but outputs may be written.
template <class Args, class Function>
auto run(const Args& host, Function function, DeviceIndices indices = DeviceIndices::on_device) {
  DeviceCall<Args> call(host, kGpu, indices);
  auto result = call.bring_back(function(call.args()));
  EXPECT_EQ(call.damage(), "");
  return result;
}

#define FLA_OP(NAME, ARGS)                                                                                 \
  TEST_F(SummaryOnGpu, NAME##_agrees_with_the_reference) {                                                 \
    for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {                        \
      fla_test::expect_summaries<fla::ARGS>(                                                               \
          [indices](const fla::ARGS::Summary& args) { return run(args, &fla::NAME##_summary, indices); }); \
    }                                                                                                      \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

TEST_F(SummaryOnGpu, LongSequencesOfManyKeysAgreeWithTheReference) {
  fla_test::expect_summary<fla::KdaArgs>(
      [](const fla::KdaSummaryArgs& args) { return run(args, &fla::kda_summary); },
      {.T = 1000, .H = 2, .K = 128, .V = 128, .data = fla::cases::DataKind::slow}, "K = 128");
  fla_test::expect_summary<fla::KdaArgs>(
      [](const fla::KdaSummaryArgs& args) { return run(args, &fla::kda_summary); },
      {.T = 300, .H = 1, .K = 256, .V = 64, .data = fla::cases::DataKind::slow}, "K = 256");
}

TEST_F(SummaryOnGpu, ACapturedCallHasTheSameBits) {
  const fla::cases::BackwardCase<fla::KdaArgs> made({.T = 200, .H = 2, .K = 64, .V = 64});
  auto host = fla::arguments_like<fla::KdaSummaryArgs>(made.forward.args);
  host.initial_state = {};
  const Tensor R = Tensor::zeros({1, 2, 64, 64}, fla::DType::f32),
               P = Tensor::zeros({1, 2, 64, 64}, fla::DType::f32);
  host.R = R, host.P = P;
  CudaStream stream;
  host.stream = stream.stream();
  DeviceCall<fla::KdaSummaryArgs> call(host, kGpu);
  (void)call.bring_back(fla::kda_summary(call.args()));
  const Tensor first_R = fla::copy_to(R, {}), first_P = fla::copy_to(P, {});
  fla::RecurrenceSummary result;
  const CudaGraph graph(stream, cudaStreamCaptureModeGlobal, [&] { result = fla::kda_summary(call.args()); });
  call.load(host);
  graph.launch();
  (void)call.bring_back(result);
  EXPECT_EQ(fla::cases::relative_error(R, first_R), 0);
  EXPECT_EQ(fla::cases::relative_error(P, first_P), 0);
}

TEST_F(MergeOnGpu, AgreesWithFloat64) {
  for (const bool diagonal : {false, true}) {
    for (const std::int64_t C : {0, 1, 5}) {
      const MergeCall call({.C = C, .diagonal = diagonal, .state = C != 1});
      const Tensor state = run(call.args, &fla::merge).final_state;
      EXPECT_LE(fla::cases::relative_error(state, call.reference()), 2e-6);
    }
  }
  for (const std::int64_t K : {1, 128, 256}) {
    const MergeCall call({.C = 3, .K = K, .V = 257 - K});
    EXPECT_LE(fla::cases::relative_error(run(call.args, &fla::merge).final_state, call.reference()), 2e-6);
  }
}

TEST_F(MergeOnGpu, UpdatesAStateInItsPlace) {
  MergeCall call({});
  const Tensor whole = run(call.args, &fla::merge).final_state;
  call.args.final_state = call.args.initial_state;
  EXPECT_EQ(fla::cases::relative_error(run(call.args, &fla::merge).final_state, whole), 0);
}

}  // namespace
