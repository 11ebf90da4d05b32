#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fla/dispatch/settings/policy.h"
#include "tests/gpu/counting_allocator.h"
#include "tests/gpu/cuda_graph.h"
#include "tests/gpu/gpu_agreement.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/random_case.h"
#include "tools/conformance/allocations.h"
#include "tools/conformance/laid_out.h"
#include "tools/conformance/pooled_call.h"
#include "tools/conformance/surrounded.h"

/// Calls inside CUDA graphs, and what they ask the allocator for.
namespace {

using fla::DType;
using fla::KdaArgs;
using fla::KdaResult;
using fla::TensorView;
using fla::cases::KdaCase;
using fla::cases::KdaSpec;
using fla::cases::make_kda_case;
using fla::cases::Reference;
using fla::conformance::DeviceCall;
using fla::conformance::DeviceIndices;
using fla::conformance::LaidOut;
using fla::conformance::PooledCall;
using fla::conformance::PoolKind;
using fla::conformance::PoolWrites;
using fla::conformance::Surrounded;
using fla_test::CountingAllocator;
using fla_test::CudaGraph;
using fla_test::CudaStream;
using fla_test::kGpu;

/// One kernel: who runs it, and the calls that it is shown with.
struct Kernel {
  const char* name;
  KdaResult (*run)(const KdaArgs&);
  const char* backend;  // that has to take the calls; "" for the original kernel
  KdaSpec spec;
  bool pooled;  // states are in a pool, by index
};

const Kernel kKernels[] = {
    {"OriginalChunk",
     fla::original::chunk_kda,
     "",
     {.H = 2, .HV = 4, .K = 128, .V = 128, .lengths = {10, 70, 0, 120}, .dtype = DType::bf16},
     false},
    {"OriginalChunkByIndex",
     fla::original::chunk_kda,
     "",
     {.H = 2, .K = 64, .V = 96, .lengths = {64, 0, 100, 36, 1}, .dtype = DType::f32},
     true},
    {"OriginalRecurrent",
     fla::original::fused_recurrent_kda,
     "",
     {.H = 2, .HV = 4, .K = 128, .V = 128, .lengths = {10, 70, 0, 120}, .dtype = DType::bf16},
     false},
    {"OriginalRecurrentByIndex",
     fla::original::fused_recurrent_kda,
     "",
     {.H = 2, .K = 64, .V = 96, .lengths = {64, 0, 100, 36, 1}, .dtype = DType::f32},
     true},
    {"Decode",
     fla::fused_recurrent_kda,
     "cuda_decode",
     {.B = 6, .T = 1, .H = 2, .HV = 4, .K = 128, .V = 128, .dtype = DType::bf16},
     false},
    {"DecodeByIndex",
     fla::fused_recurrent_kda,
     "cuda_decode",
     {.B = 6, .T = 1, .H = 2, .HV = 4, .K = 128, .V = 128, .dtype = DType::bf16},
     true},
    {"Flash",
     fla::chunk_kda,
     "flash_kda",
     {.H = 2, .HV = 4, .K = 128, .V = 128, .lengths = {10, 70, 0, 120}, .dtype = DType::bf16},
     false},
    {"FlashByIndex",
     fla::chunk_kda,
     "flash_kda",
     {.H = 2, .K = 128, .V = 128, .lengths = {64, 0, 100, 36, 1}, .dtype = DType::bf16},
     true},
    {"TileLang",
     fla::chunk_kda,
     "tilelang",
     {.H = 2, .HV = 4, .K = 64, .V = 128, .lengths = {10, 70, 0, 120}, .dtype = DType::bf16},
     false},
    {"TileLangByIndex",
     fla::chunk_kda,
     "tilelang",
     {.H = 2, .K = 256, .V = 64, .lengths = {64, 0, 100, 36, 1}, .dtype = DType::f16},
     true},
    {"FlashInSegments",
     fla::chunk_kda,
     "flash_kda",
     {.T = 2048, .H = 1, .K = 128, .V = 128, .dtype = DType::bf16},
     false},
};

/// One of the calls of a kernel: contents, packing and slots differ from one to the next, layouts do not.
class Contents {
 public:
  Contents(const Kernel& kernel, std::uint64_t seed) : call_(make_kda_case(spec_of(kernel, seed))) {
    reference_ = fla::cases::reference_of(call_.args);
    if (kernel.pooled) {
      pooled_ = std::make_unique<PooledCall<fla::KdaArgs>>(
          call_.args, PoolKind{.writes = PoolWrites::moved, .skips = true, .seed = seed});
    } else {
      surrounded_ = std::make_unique<Surrounded<fla::KdaArgs>>(call_.args);
    }
  }

  KdaArgs args_on(const CudaStream& stream) const {
    KdaArgs args = pooled_ ? pooled_->args() : surrounded_->args;
    args.stream = stream.stream();
    return args;
  }

  /// What is wrong with the result of a run; empty when nothing is.
  std::string wrong(const KdaResult& result) const {
    if (pooled_) return pooled_->wrong(result, reference_);
    std::string text = fla::conformance::disagreement(result, reference_, surrounded_->args);
    for (const LaidOut& output : surrounded_->outputs) {
      if (!output.intact_around()) text += "wrote around an output; ";
    }
    return text;
  }

 private:
  static KdaSpec spec_of(const Kernel& kernel, std::uint64_t seed) {
    KdaSpec spec = kernel.spec;
    spec.seed = seed;
    // The same tokens, packed in other ways.
    for (std::size_t n = 0; seed % 2 == 0 && n + 1 < spec.lengths.size(); n += 2)
      std::swap(spec.lengths[n], spec.lengths[n + 1]);
    return spec;
  }

  KdaCase call_;
  Reference reference_;
  std::unique_ptr<PooledCall<fla::KdaArgs>> pooled_;
  std::unique_ptr<Surrounded<fla::KdaArgs>> surrounded_;
};

fla::Policy policy_of(const Kernel& kernel) {
  if (*kernel.backend == '\0') return {};
  return {.disable_dispatch = false,
          .enable = {{kernel.backend, true}},
          .order = {{"kda", {kernel.backend}}},
          .require = {{"kda", kernel.backend}}};
}

class GraphOf : public fla_test::OnGpu<testing::TestWithParam<Kernel>> {
 protected:
  void SetUp() override {
    fla_test::OnGpu<testing::TestWithParam<Kernel>>::SetUp();
    if (IsSkipped() || *GetParam().backend == '\0') return;
    if (const std::string why = fla_test::why_without(GetParam().backend); !why.empty())
      GTEST_SKIP() << "not run: " << why;
  }
};

TEST_P(GraphOf, IsReplayedWithOtherContents) {
  const fla::ScopedPolicy policy(policy_of(GetParam()));
  const CudaStream stream;
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    const Contents first(GetParam(), 1);
    DeviceCall call(first.args_on(stream), kGpu);
    EXPECT_EQ(first.wrong(call.bring_back(GetParam().run(call.args()))), "") << "without a graph";
    KdaResult result;
    const CudaGraph graph(stream, mode, [&] { result = GetParam().run(call.args()); });
    for (const std::uint64_t seed : {2, 1, 3, 4}) {
      const Contents contents(GetParam(), seed);
      call.load(contents.args_on(stream));
      graph.launch();
      EXPECT_EQ(contents.wrong(call.bring_back(result)), "") << "contents " << seed;
      EXPECT_EQ(call.damage(), "") << "contents " << seed;
    }
  }
}

TEST_P(GraphOf, HoldsKernelsAndNothingElse) {
  const fla::ScopedPolicy policy(policy_of(GetParam()));
  const CudaStream stream;
  const Contents contents(GetParam(), 1);
  DeviceCall call(contents.args_on(stream), kGpu);
  (void)call.bring_back(GetParam().run(call.args()));
  const CudaGraph graph(stream, cudaStreamCaptureModeGlobal, [&] { (void)GetParam().run(call.args()); });
  ASSERT_FALSE(graph.nodes().empty());
  for (const cudaGraphNodeType kind : graph.nodes())
    EXPECT_TRUE(kind == cudaGraphNodeTypeKernel || kind == cudaGraphNodeTypeMemset) << kind;
}

TEST_P(GraphOf, ACallWithEverythingGivenAllocatesNothing) {
  const fla::ScopedPolicy policy(policy_of(GetParam()));
  const CudaStream stream;
  const Contents contents(GetParam(), 1);
  for (const auto indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
    DeviceCall call(contents.args_on(stream), kGpu, indices);
    for (int i = 0; i < 2; ++i) (void)GetParam().run(call.args());  // loads kernels
    stream.synchronize();
    const CountingAllocator allocator;
    const std::uint64_t before = fla_test::allocations_of_this_thread();
    (void)GetParam().run(call.args());
    EXPECT_EQ(fla_test::allocations_of_this_thread(), before) << "on the host";
    // Recorded in this mode, whatever allocates or waits is an error.
    const CudaGraph graph(stream, cudaStreamCaptureModeGlobal, [&] { (void)GetParam().run(call.args()); });
    EXPECT_EQ(allocator.allocations(), 0);
    stream.synchronize();
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GraphOf, testing::ValuesIn(kKernels),
                         [](const auto& test) { return test.param.name; });

/// Without indices: a pool is the caller's memory.
class AllocationsOf : public GraphOf {};

TEST_P(AllocationsOf, ACallGoThroughTheHookAndAreAllGivenBack) {
  const fla::ScopedPolicy policy(policy_of(GetParam()));
  const CudaStream stream;
  KdaCase made = make_kda_case(GetParam().spec);
  made.args.stream = stream.stream();
  const Reference reference = fla::cases::reference_of(made.args);
  DeviceCall call(made.args, kGpu);
  CountingAllocator allocator;
  {
    const KdaResult result = GetParam().run(call.args());
    EXPECT_TRUE(allocator.only_for(stream.stream()));
    EXPECT_EQ(allocator.allocations() - allocator.releases(), 2) << "o and final_state are held";
    EXPECT_EQ(allocator.bytes_held(),
              static_cast<std::size_t>(result.o.numel()) * size_of(result.o.dtype()) +
                  static_cast<std::size_t>(result.final_state.numel()) * size_of(result.final_state.dtype()));
    EXPECT_EQ(fla::conformance::disagreement(call.bring_back(result), reference, made.args), "");
  }
  EXPECT_EQ(allocator.allocations(), allocator.releases());
  EXPECT_EQ(allocator.bytes_held(), 0u);
  stream.synchronize();
}

INSTANTIATE_TEST_SUITE_P(Kernels, AllocationsOf,
                         testing::Values(kKernels[0], kKernels[2], kKernels[4], kKernels[6], kKernels[8]),
                         [](const auto& test) { return test.param.name; });

class GraphOfSteps : public fla_test::GpuTest {};

TEST_F(GraphOfSteps, EachStepGoesOnFromTheStateThatTheOneBeforeLeft) {
  constexpr std::int64_t kSteps = 3;
  const fla::ScopedPolicy policy(policy_of(kKernels[4]));
  const CudaStream stream;
  for (const DType state_dtype : {DType::f32, DType::bf16}) {
    for (const bool v_first : {false, true}) {
      const KdaCase made = make_kda_case({.B = 40,
                                          .T = kSteps,
                                          .H = 8,
                                          .K = 128,
                                          .V = 128,
                                          .dtype = DType::bf16,
                                          .gate_dtype = DType::bf16,
                                          .state_dtype = state_dtype,
                                          .data = fla::cases::DataKind::slow,
                                          .options = {.output_final_state = true, .state_v_first = v_first}});
      const Reference reference = fla::cases::reference_of(made.args);
      const LaidOut state = LaidOut::copy_of(made.args.initial_state), out(made.args.v.shape(), DType::bf16);
      KdaArgs args = made.args;
      args.stream = stream.stream();
      args.out = out;
      args.initial_state = args.final_state = state;
      DeviceCall call(args, kGpu);
      const auto step = [&](std::int64_t t) {
        KdaArgs one = call.args();
        for (TensorView* tensor : {&one.q, &one.k, &one.v, &one.g, &one.beta, &one.out})
          *tensor = tensor->slice(1, t, 1);
        (void)fla::fused_recurrent_kda(one);
      };
      step(0);  // loads the kernel
      stream.synchronize();
      const CudaGraph graph(stream, cudaStreamCaptureModeGlobal, [&] {
        for (std::int64_t t = 0; t < kSteps; ++t) step(t);
      });
      call.load(args);
      graph.launch();
      const KdaResult result =
          call.bring_back({fla::Tensor::over(call.args().out), fla::Tensor::over(call.args().final_state)});
      EXPECT_EQ(call.damage(), "");
      EXPECT_EQ(fla::conformance::disagreement(result, reference, args), "");
    }
  }
}

class GraphOfGradients : public fla_test::GpuTest {};

TEST_F(GraphOfGradients, LeavesTheBitsOfTheCallAndAsksForNoMemory) {
  const CudaStream stream;
  const fla::cases::BackwardCase<KdaArgs> made(
      {.H = 2, .K = 64, .V = 64, .lengths = {70, 0, 33}, .dtype = DType::bf16});
  fla::KdaBackwardArgs args = made.args;
  args.stream = stream.stream();
  const LaidOut dq(args.q.shape(), DType::bf16), dk(args.k.shape(), DType::bf16),
      dv(args.v.shape(), DType::bf16), dg(args.g.shape(), args.g.dtype()),
      dbeta(args.beta.shape(), args.beta.dtype()), state(args.initial_state.shape(), DType::f32);
  args.dq = dq, args.dk = dk, args.dv = dv, args.dg = dg, args.dbeta = dbeta, args.dinitial_state = state;
  DeviceCall<fla::KdaBackwardArgs> call(args, kGpu);
  const auto bytes = [&](const fla::RecurrenceGradients& result) {
    std::vector<std::vector<std::byte>> all;
    for (const auto& [name, gradient] : fla::cases::named_gradients(call.bring_back(result)))
      all.push_back(fla::conformance::bytes_of(gradient));
    EXPECT_EQ(call.damage(), "");
    return all;
  };
  const fla::RecurrenceGradients result = fla::original::chunk_kda_backward(call.args());
  const auto expected = bytes(result);
  CountingAllocator allocator;
  const CudaGraph graph(stream, cudaStreamCaptureModeGlobal,
                        [&] { (void)fla::original::chunk_kda_backward(call.args()); });
  EXPECT_EQ(allocator.allocations(), 0);
  call.load(args);
  graph.launch();
  EXPECT_EQ(bytes(result), expected);
}

}  // namespace
