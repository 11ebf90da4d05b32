#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/gpu/counting_allocator.h"
#include "tests/gpu/cuda_graph.h"
#include "tests/gpu/gpu.h"
#include "tests/ops/common/laid_out_call.h"
#include "tests/ops/gated_rms_norm/norm_call.h"
#include "tests/ops/short_conv/conv_call.h"
#include "tools/conformance/device_call.h"

/// short_conv and gated_rms_norm on a GPU.
namespace {

using fla::DType;
using fla::Tensor;
using fla::conformance::bytes_of;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla::conformance::Layout;
using fla_test::ConvCall;
using fla_test::ConvSpec;
using fla_test::CountingAllocator;
using fla_test::CudaGraph;
using fla_test::CudaStream;
using fla_test::index_tensor;
using fla_test::kGpu;
using fla_test::LaidOutCall;
using fla_test::NormCall;
using fla_test::NormSpec;

class ShortConvOnGpu : public fla_test::GpuTest {};
class GatedRmsNormOnGpu : public fla_test::GpuTest {};

/// The call on the GPU, where nothing but outputs may be written.
fla::ShortConvResult run(const fla::ShortConvArgs& host, DeviceIndices indices = DeviceIndices::on_device) {
  DeviceCall call(host, kGpu, indices);
  fla::ShortConvResult result = call.bring_back(fla::short_conv(call.args()));
  EXPECT_EQ(call.damage(), "");
  return result;
}
fla::GatedRmsNormResult run(const fla::GatedRmsNormArgs& host) {
  DeviceCall call(host, kGpu);
  fla::GatedRmsNormResult result = call.bring_back(fla::gated_rms_norm(call.args()));
  EXPECT_EQ(call.damage(), "");
  return result;
}

TEST_F(ShortConvOnGpu, AgreesWithFloat64) {
  for (const ConvSpec& spec : fla_test::conv_specs()) {
    for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
      const ConvCall call(spec);
      auto reference = fla::cases::reference_of(call.args);
      if (indices == DeviceIndices::on_device) {  // nothing is written behind the last sequence
        for (std::size_t i = reference.o.size() - static_cast<std::size_t>(spec.unused * spec.D);
             i < reference.o.size(); ++i)
          reference.o[i] = 7;
      }
      fla_test::expect_agrees(run(call.args, indices), reference, fla::cases::tolerance(spec.dtype),
                              spec.text());
    }
  }
}

TEST_F(ShortConvOnGpu, LargeCallsAgreeWithFloat64) {
  for (const std::int64_t D : {1536, 1537}) {
    ConvSpec spec{.D = D, .dtype = DType::bf16, .state_dtype = DType::bf16};
    for (std::int64_t length = 0; length < 40; ++length) spec.lengths.push_back(length * 13 % 97);
    const ConvCall call(spec);
    fla_test::expect_agrees(run(call.args), fla::cases::reference_of(call.args),
                            fla::cases::tolerance(spec.dtype), spec.text());
  }
}

TEST_F(ShortConvOnGpu, LayoutsDoNotChangeBits) {
  fla::cases::Random random(5);
  for (const ConvSpec& spec : fla_test::conv_specs()) {
    const ConvCall call(spec);
    const LaidOutCall padded(call.args, &Layout::padded),
        anyhow(call.args, [&](int rank) { return Layout::random(rank, random); });
    const fla::ShortConvResult expected = run(call.args);
    for (const auto* laid : {&padded, &anyhow}) {
      const fla::ShortConvResult result = run(laid->args);
      EXPECT_EQ(bytes_of(result.o), bytes_of(expected.o)) << spec.text();
      EXPECT_EQ(bytes_of(result.final_state), bytes_of(expected.final_state)) << spec.text();
    }
  }
}

TEST_F(ShortConvOnGpu, APrefillAndStepsHaveTheBitsOfOneLongerPrefill) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const ConvSpec spec{.B = 3, .T = 40, .D = 260, .dtype = dtype, .state_dtype = dtype};
    const ConvCall call(spec), again(spec);
    const fla::ShortConvResult expected = run(call.args);
    fla::ShortConvArgs part = again.args;
    part.final_state = part.initial_state;
    for (std::int64_t begin = 0, count = 29; begin < 40; begin += count, count = 1) {
      part.x = again.args.x.slice(1, begin, count), part.out = again.args.out.slice(1, begin, count);
      (void)run(part);
    }
    EXPECT_EQ(bytes_of(again.args.out), bytes_of(expected.o));
    EXPECT_EQ(bytes_of(part.final_state), bytes_of(expected.final_state));
  }
}

TEST_F(ShortConvOnGpu, PackedSequencesHaveTheBitsOfSingleOnes) {
  const ConvSpec spec{.D = 100, .dtype = DType::bf16, .lengths = {5, 0, 70, 1, 3, 16}};
  const ConvCall call(spec);
  const fla::ShortConvResult packed = run(call.args);
  std::int64_t begin = 0;
  for (std::size_t n = 0; n < spec.lengths.size(); begin += spec.lengths[n++]) {
    fla::ShortConvArgs one = call.args;
    one.x = call.args.x.slice(1, begin, spec.lengths[n]);
    one.initial_state = call.args.initial_state.slice(0, static_cast<std::int64_t>(n), 1);
    one.cu_seqlens = one.out = {};
    EXPECT_EQ(bytes_of(run(one).o), bytes_of(packed.o.view().slice(1, begin, spec.lengths[n])));
  }
}

/// Contents of indices that no call may have: three sequences of 27 tokens in a pool of three.
struct BadIndices {
  std::vector<std::int64_t> starts, slots;
  std::string error;  // what is said of them where they are checked
};
const std::vector<BadIndices> kBadIndices{
    {{0, 20, 3, 27},
     {0, 1, 2},
     "cu_seqlens: expected entries that never fall, got cu_seqlens[1]=20 and cu_seqlens[2]=3"},
    {{-5, 30, 8, 1 << 30}, {0, 1, 2}, "cu_seqlens: expected a first entry of 0, got cu_seqlens[0]=-5"},
    {{0, 9, 18, 28}, {0, 1, 2}, "cu_seqlens: expected a last entry of at most T=27, got cu_seqlens[3]=28"},
    {{0, 9, 18, 27}, {0, 3, 2}, "state_indices: expected entries below P=3, got state_indices[1]=3"},
    {{0, 9, 18, 27},
     {0, 1, std::numeric_limits<std::int32_t>::max()},
     "state_indices: expected entries below P=3, got state_indices[2]=2147483647"},
    {{0, 9, 18, 27},
     {2, 1, 2},
     "state_indices: expected slots that are written once, got state_indices[0]=2 and "
     "state_indices[2]=2"}};

TEST_F(ShortConvOnGpu, WrongContentsOfIndicesStayInBounds) {
  for (const BadIndices& bad : kBadIndices) {
    const ConvCall call({.D = 5, .lengths = {9, 9, 9}, .slots = {0, 1, 2}, .pool = 3});
    const Tensor starts = index_tensor(bad.starts), slots = index_tensor(bad.slots, DType::i32);
    fla::ShortConvArgs args = call.args;
    args.cu_seqlens = starts, args.state_indices = slots;
    (void)run(args);
  }
}

TEST_F(ShortConvOnGpu, WrongContentsOfIndicesAreReportedWhereTheyAreChecked) {
  for (const BadIndices& bad : kBadIndices) {
    const ConvCall call({.D = 5, .lengths = {9, 9, 9}, .slots = {0, 1, 2}, .pool = 3});
    const std::vector<std::byte> before = bytes_of(call.initial_state);
    const Tensor starts = index_tensor(bad.starts), slots = index_tensor(bad.slots, DType::i32);
    fla::ShortConvArgs args = call.args;
    args.cu_seqlens = starts, args.state_indices = slots;
    DeviceCall there(args, kGpu);
    const fla_test::ReloadedEnvironment checked({{"FLA_CHECK_INDICES", "1"}});
    EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] { (void)fla::short_conv(there.args()); }),
              "short_conv: " + bad.error);
    (void)there.bring_back({});
    EXPECT_EQ(bytes_of(call.initial_state), before) << bad.error;
  }
}

TEST_F(ShortConvOnGpu, IsCapturedAndAllocatesNothing) {
  const CudaStream stream;
  const ConvCall call({.B = 4, .T = 1, .D = 96, .slots = {3, 0, -1, 2}, .pool = 5});
  const auto reference = fla::cases::reference_of(call.args);
  fla::ShortConvArgs host = call.args;
  host.stream = stream.stream();
  DeviceCall there(host, kGpu);
  EXPECT_EQ(fla::workspace_size(there.args()), 0u);
  fla::synchronize(kGpu);
  const CountingAllocator allocator;
  const CudaGraph graph(stream, cudaStreamCaptureModeGlobal, [&] { (void)fla::short_conv(there.args()); });
  graph.launch();
  stream.synchronize();
  EXPECT_EQ(allocator.allocations(), 0);
  EXPECT_EQ(graph.nodes().size(), 1u) << "one kernel";
  const fla::ShortConvResult result =
      there.bring_back({Tensor::over(there.args().out), Tensor::over(there.args().final_state)});
  fla_test::expect_agrees(result, reference, fla::cases::tolerance(DType::f32), "graph");
}

TEST_F(ShortConvOnGpu, HostIndicesNeedTheWorkspaceThatItsSizeSays) {
  const ConvCall call({.D = 8, .lengths = {3, 4}, .slots = {1, 0}, .pool = 2});
  DeviceCall there(call.args, kGpu, DeviceIndices::on_host);
  fla::ShortConvArgs args = there.args();
  EXPECT_EQ(args.workspace.bytes, 256u);
  const std::vector<std::byte> before = bytes_of(call.initial_state);
  args.workspace.bytes = 255;
  EXPECT_THROW((void)fla::short_conv(args), fla::InvalidArgument);
  (void)there.bring_back({});
  EXPECT_EQ(bytes_of(call.initial_state), before) << "a step that failed";
  const CountingAllocator allocator;
  (void)fla::short_conv(there.args());
  fla::synchronize(kGpu);
  EXPECT_EQ(allocator.allocations(), 0);
}

TEST_F(GatedRmsNormOnGpu, AgreesWithFloat64AlsoInPlace) {
  for (const NormSpec& spec : fla_test::norm_specs()) {
    NormCall call(spec);
    const std::vector<double> reference = fla::cases::reference_of(call.args);
    const Tensor o = run(call.args).o;
    EXPECT_LE(fla::cases::relative_error(o, reference), fla::cases::tolerance(spec.dtype)) << spec.text();
    call.args.out = call.args.x;
    EXPECT_EQ(bytes_of(run(call.args).o), bytes_of(o)) << spec.text() << ": in place";
  }
}

TEST_F(GatedRmsNormOnGpu, LayoutsDoNotChangeBits) {
  fla::cases::Random random(6);
  for (const NormSpec& spec : fla_test::norm_specs()) {
    NormCall call(spec);
    const Tensor expected = run(call.args).o;
    const Tensor out = fla::copy_to(call.x, {});
    call.args.out = out;
    const LaidOutCall padded(call.args, &Layout::padded),
        anyhow(call.args, [&](int rank) { return Layout::random(rank, random); });
    for (const auto* laid : {&padded, &anyhow})
      EXPECT_EQ(bytes_of(run(laid->args).o), bytes_of(expected)) << spec.text();
  }
}

TEST_F(GatedRmsNormOnGpu, IsCapturedAndAllocatesNothing) {
  const CudaStream stream;
  NormCall call({.V = 128});
  const std::vector<double> reference = fla::cases::reference_of(call.args);
  const Tensor out = fla::copy_to(call.x, {});
  call.args.out = out, call.args.stream = stream.stream();
  DeviceCall there(call.args, kGpu);
  fla::synchronize(kGpu);
  const CountingAllocator allocator;
  const CudaGraph graph(stream, cudaStreamCaptureModeGlobal,
                        [&] { (void)fla::gated_rms_norm(there.args()); });
  graph.launch();
  stream.synchronize();
  EXPECT_EQ(allocator.allocations(), 0);
  const Tensor o = there.bring_back({Tensor::over(there.args().out)}).o;
  EXPECT_LE(fla::cases::relative_error(o, reference), fla::cases::tolerance(DType::f32));
}

}  // namespace
