#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "tests/core/error_text.h"
#include "tests/core/scoped_environment.h"
#include "tests/gpu/counting_allocator.h"
#include "tests/gpu/cuda_graph.h"
#include "tests/gpu/gpu.h"
#include "tests/ops/recurrence/op_name.h"
#include "tools/conformance/copied_call.h"
#include "tools/conformance/ring_walk.h"

/// Steps over rings on a GPU.
namespace {

using fla::DType;
using fla::Tensor;
using fla::TensorView;
using fla::cases::DataKind;
using fla::conformance::CopiedCall;
using fla::conformance::DeviceIndices;
using fla::conformance::RingWalk;
using fla_test::CountingAllocator;
using fla_test::CudaGraph;
using fla_test::CudaStream;
using fla_test::kGpu;

template <class Args, class Run>
auto on_gpu(Run run, DeviceIndices indices) {
  return [run, indices](const Args& host) {
    CopiedCall<Args> there(host, kGpu, indices);
    if constexpr (fla::ReplayArgs<Args>) {
      const fla::ReplayResult result = run(there.args());
      there.bring_back();
      return fla::ReplayResult{fla::copy_to(result.o, {})};
    } else {
      run(there.args());
      there.bring_back();
    }
  };
}

template <class Args>
class ReplayOnGpu : public fla_test::GpuTest {
 public:
  using Spec = fla::cases::CaseSpec<Args>;
  using Functions = fla::cases::Functions<Args>;

  static void walk(const Spec& spec, const fla::conformance::WalkSpec& steps, double tolerance) {
    for (const DeviceIndices indices : {DeviceIndices::on_device, DeviceIndices::on_host}) {
      SCOPED_TRACE("K=" + std::to_string(spec.K) + " T=" + std::to_string(steps.T));
      EXPECT_EQ(RingWalk<Args>(spec, steps)
                    .run(on_gpu<typename Args::Replay>(Functions::replay, indices),
                         on_gpu<typename Args::Fold>(Functions::fold, indices), tolerance, tolerance),
                "");
      EXPECT_EQ(
          RingWalk<Args>(spec, steps)
              .run(on_gpu<typename Args::Replay>(Functions::original_replay, indices),
                   on_gpu<typename Args::Fold>(Functions::original_fold, indices), tolerance, tolerance),
          "");
    }
  }
};

#define FLA_OP(NAME, ARGS) , fla::ARGS
template <class First, class... Others>
using TypesBut = testing::Types<Others...>;  // a list of ops begins with a comma
TYPED_TEST_SUITE(ReplayOnGpu, TypesBut<void FLA_RECURRENCE_OPS(FLA_OP)>, fla_test::OpName);
#undef FLA_OP

TYPED_TEST(ReplayOnGpu, AgreesWithPlainSteps) {
  for (const std::int64_t K : {64, 128, 40}) {
    auto specs = fla::conformance::specs_with_options<TypeParam>(
        {.B = 3, .T = 24, .H = 1, .HV = 2, .K = K, .V = 64, .data = DataKind::resets});
    if (K != 64) specs.resize(1);  // every option with one size, every size with one
    for (const auto& spec : specs) {
      for (const std::int64_t T : {1, 4}) this->walk(spec, {.L = 16, .T = T, .steps = 24}, 2e-5);
    }
  }
}

TYPED_TEST(ReplayOnGpu, TakesBf16) {
  for (const bool v_first : {false, true}) {
    auto spec = typename TestFixture::Spec{.B = 3, .T = 24, .H = 2, .K = 128, .V = 128, .dtype = DType::bf16};
    spec.gate_dtype = spec.state_dtype = DType::bf16;
    spec.options.state_v_first = v_first;
    for (const std::int64_t T : {1, 2, 8}) this->walk(spec, {.L = 16, .T = T, .steps = 20}, 1.6e-2);
  }
}

/// Three sequences over rings of 8 places.
struct SmallRings {
  static constexpr std::int64_t N = 3, H = 2, D = 64, L = 8;
  std::vector<std::int64_t> slots{2, 0, 1}, begin{3, 0, 6}, end{5, 4, 6};
  Tensor q = filled({N, 1, H, D}), g = Tensor::zeros({N, 1, H, D}, DType::f32), beta = filled({N, 1, H}),
         state = filled({N, H, D, D}), ring_k = filled({N, L, H, D}), ring_u = filled({N, L, H, D}),
         ring_g = Tensor::zeros({N, L, H, D}, DType::f32), out = filled({N, 1, H, D});

  static Tensor filled(std::vector<std::int64_t> shape) {
    Tensor tensor = Tensor::empty(shape, DType::f32);
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      tensor.as<float>()[i] = 0.01f * static_cast<float>(i % 17);
    return tensor;
  }
  static TensorView index(const std::vector<std::int64_t>& entries) {
    return {entries.data(), DType::i64, {N}};
  }
  fla::KdaReplayArgs args() const {
    return {.q = q,
            .k = q,
            .v = q,
            .g = g,
            .beta = beta,
            .state = state,
            .state_indices = index(slots),
            .ring_begin = index(begin),
            .ring_end = index(end),
            .ring_k = ring_k,
            .ring_u = ring_u,
            .ring_g = ring_g,
            .out = out};
  }
};

using RingsOnGpu = fla_test::GpuTest;

TEST_F(RingsOnGpu, ContentsOutOfRangeSkipTheirSequence) {
  const auto spoilers = std::vector<std::pair<std::string, void (*)(SmallRings&)>>{
      {"state_indices: expected entries below P=3, got state_indices[1]=3",
       [](auto& rings) { rings.slots[1] = 3; }},
      {"ring_begin: expected entries of at least 0, got ring_begin[1]=-1",
       [](auto& rings) { rings.begin[1] = -1; }},
      {"ring_end: expected entries of at least ring_begin's, got ring_end[1]=4 and ring_begin[1]=7",
       [](auto& rings) { rings.begin[1] = 7; }},
      {"ring_end: expected at most 7 tokens in a ring of L=8 before T=1 more, got ring_end[1]=8 and "
       "ring_begin[1]=0",
       [](auto& rings) { rings.end[1] = 8; }}};
  for (auto* const run : {&fla::replay_kda, &fla::original::replay_kda}) {
    SmallRings right;
    CopiedCall<fla::KdaReplayArgs> expected(right.args(), kGpu);
    run(expected.args());
    expected.bring_back();
    for (const auto& [words, spoil] : spoilers) {
      SmallRings rings;
      const std::vector<std::byte> before = fla::conformance::bytes_of(rings.state);
      spoil(rings);
      {
        const fla_test::ReloadedEnvironment checked({{"FLA_CHECK_INDICES", "1"}});
        CopiedCall<fla::KdaReplayArgs> there(rings.args(), kGpu);
        EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>([&] { run(there.args()); }), "kda: " + words);
      }
      CopiedCall<fla::KdaReplayArgs> there(rings.args(), kGpu);
      run(there.args());
      there.bring_back();
      EXPECT_EQ(fla::conformance::bytes_of(rings.state), before) << words;
      for (std::int64_t n = 0; n < SmallRings::N; ++n) {
        const TensorView o = rings.out.view().slice(0, n, 1);
        const Tensor zeros = Tensor::zeros(o.shape(), DType::f32);
        EXPECT_TRUE(fla::conformance::same_bytes(o, n == 1 ? zeros.view() : right.out.view().slice(0, n, 1)))
            << words;
      }
    }
  }
}

TEST_F(RingsOnGpu, AStepIsCapturedAndAllocatesNothing) {
  for (auto* const run : {&fla::replay_kda, &fla::original::replay_kda}) {
    SmallRings rings, expected;
    CopiedCall<fla::KdaReplayArgs> eager(expected.args(), kGpu);
    run(eager.args());
    eager.bring_back();
    const CudaStream stream;
    const fla::KdaReplayArgs host = rings.args();
    CopiedCall<fla::KdaReplayArgs> there(host, kGpu);
    there.args().stream = stream.stream();
    EXPECT_EQ(fla::workspace_size(there.args()), 0u);
    const CountingAllocator allocator;
    const CudaGraph graph(stream, cudaStreamCaptureModeGlobal, [&] { (void)run(there.args()); });
    graph.launch();
    stream.synchronize();
    EXPECT_EQ(allocator.allocations(), 0);
    EXPECT_EQ(graph.nodes().size(), 1u) << "one kernel";
    there.bring_back();
    EXPECT_TRUE(fla::conformance::same_bytes(rings.out, expected.out));
    EXPECT_TRUE(fla::conformance::same_bytes(rings.ring_u, expected.ring_u));
  }
}

}  // namespace
