#include "fla/distributed/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fla/distributed/ops.h"
#include "tests/core/error_text.h"
#include "tests/distributed/local_call.h"
#include "tests/gpu/cuda_graph.h"
#include "tests/gpu/gpu.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/with_op.h"
#include "tools/conformance/device_call.h"

/// Ops over an NCCL communicator of one rank, which has all parts of a batch: what goes through NCCL is what
/// goes through it between ranks.
namespace {

using fla::DType;
using fla::cases::BackwardCase;
using fla::cases::CaseSpec;
using fla::cases::relative_error;
using fla::conformance::DeviceCall;
using fla::distributed::NcclOptions;
using fla::distributed::Placement;
using fla_test::bytes_of;
using fla_test::Context;
using fla_test::CudaGraph;
using fla_test::CudaStream;
using fla_test::kGpu;
using fla_test::LocalCall;
using fla_test::Numbers;
using fla_test::Tensor;

TEST(NcclRefuses, NoCommunicator) {
  EXPECT_EQ(fla_test::error_text<fla::InvalidArgument>(
                [] { (void)fla::distributed::make_nccl_transport(nullptr); }),
            "communicator: expected an NCCL communicator, got none");
}

class OverNccl : public fla_test::GpuTest {
 protected:
  void SetUp() override {
    fla_test::GpuTest::SetUp();
    if (IsSkipped()) return;
    const int device = 0;
    ASSERT_EQ(ncclCommInitAll(&communicator_, 1, &device), ncclSuccess) << ncclGetLastError(nullptr);
  }
  void TearDown() override {
    if (communicator_ != nullptr) ncclCommDestroy(communicator_);
  }

  Context context_of(const Numbers& starts, const Numbers& cuts, const NcclOptions& options = {}) const {
    return {fla::distributed::make_nccl_transport(communicator_, options), starts,
            Placement{cuts, std::vector<int>(cuts.size() - 1, 0)}};
  }

  /// Both on the GPU, the cut call against one that is not.
  template <class Args, class Forward, class Backward>
  void expect_plain_call(Forward forward, Backward backward) const {
    using Functions = fla::cases::Functions<Args>;
    const Numbers lengths{40, 0, 150, 3, 37}, cuts{0, 31, 32, 120, 230};
    const BackwardCase<Args> made(CaseSpec<Args>{.H = 1, .HV = 2, .K = 16, .V = 12, .lengths = lengths});
    DeviceCall<Args> plain(made.forward.args, kGpu);
    const fla::RecurrenceResult whole = plain.bring_back(Functions::chunk(plain.args()));
    DeviceCall<typename Args::Backward> plain_back(made.args, kGpu);
    const fla::RecurrenceGradients gradients = plain_back.bring_back(Functions::backward(plain_back.args()));

    Context context = context_of(fla_test::starts_of(lengths), cuts);
    const LocalCall<Args> local(context, made.forward.args);
    DeviceCall<Args> call(local.args, kGpu);
    const fla::distributed::Result result = forward(context, call.args());
    const fla::RecurrenceResult found = call.bring_back({result.o, result.final_state});
    EXPECT_EQ(call.damage(), "");
    EXPECT_LE(relative_error(found.o, whole.o), 2e-5);
    for (std::size_t i = 0; i < context.pieces().size(); ++i) {
      if (!context.pieces()[i].ends) continue;
      const auto state_of = [](const Tensor& states, std::int64_t n) {
        return fla_test::joined(states, 0, {{n, n + 1}});
      };
      EXPECT_LE(relative_error(state_of(found.final_state, static_cast<std::int64_t>(i)),
                               state_of(whole.final_state, context.pieces()[i].sequence)),
                2e-5);
    }

    const LocalCall<typename Args::Backward> local_back(context, made.args);
    DeviceCall<typename Args::Backward> back(local_back.args, kGpu);
    auto args = back.args();
    args.initial_state = result.initial_state;
    const fla::RecurrenceGradients found_back = back.bring_back(backward(context, args));
    EXPECT_EQ(back.damage(), "");
    const auto expected = fla::cases::named_gradients(gradients),
               of_parts = fla::cases::named_gradients(found_back);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto& [name, gradient] = expected[i];
      if (!gradient.defined() || name == "dinitial_state") continue;  // of one sequence each, here of a piece
      EXPECT_LE(relative_error(of_parts[i].second, gradient), 2e-5) << name;
    }
    context.synchronize(kGpu, {});
  }

  ncclComm_t communicator_ = nullptr;
};

#define FLA_OP(NAME, ARGS)                                                    \
  TEST_F(OverNccl, NAME##_agrees_with_a_plain_call) {                         \
    expect_plain_call<fla::ARGS>(&fla::distributed::chunk_##NAME,             \
                                 &fla::distributed::chunk_##NAME##_backward); \
  }
FLA_RECURRENCE_OPS(FLA_OP)
#undef FLA_OP

/// A call of kda with all of its outputs given, forward and backward, over one sequence in three parts.
struct GivenKda {
  explicit GivenKda(const Context& context, CudaStream& stream)
      : made({.H = 2, .K = 64, .V = 64, .lengths = {200}, .initial_state = false}),
        forward(context, made.forward.args),
        backward(context, made.args) {
    forward.args.output_final_state = false;
    forward.args.final_state = {};
    backward.args.dht = {};
    const auto given = [&](const fla::TensorView& like) {
      outputs.push_back(Tensor::zeros(like.shape(), like.dtype()));
      return outputs.back().view();
    };
    forward.args.out = given(forward.args.v);
    backward.args.dq = given(backward.args.q);
    backward.args.dk = given(backward.args.k);
    backward.args.dv = given(backward.args.v);
    backward.args.dg = given(backward.args.g);
    backward.args.dbeta = given(backward.args.beta);
    forward.args.stream = backward.args.stream = stream.stream();
  }

  /// Forward and backward, on memory of their own.
  struct OnDevice {
    explicit OnDevice(const GivenKda& kda)
        : forward(kda.forward.args, kGpu), backward(kda.backward.args, kGpu) {}
    void run(Context& context) {
      fla::KdaArgs args = forward.args();
      args.workspace = {};  // what DeviceCall gives is that of a call that is not cut
      const fla::distributed::Result result = fla::distributed::chunk_kda(context, args);
      fla::KdaBackwardArgs back = backward.args();
      back.workspace = {};
      back.initial_state = result.initial_state;
      (void)fla::distributed::chunk_kda_backward(context, back);
    }
    /// Brings the outputs back and returns copies.
    std::vector<Tensor> outputs(const GivenKda& kda) {
      (void)forward.bring_back({Tensor::over(forward.args().out), {}});
      const fla::KdaBackwardArgs& args = backward.args();
      fla::RecurrenceGradients gradients;
      gradients.dq = Tensor::over(args.dq), gradients.dk = Tensor::over(args.dk);
      gradients.dv = Tensor::over(args.dv), gradients.dg = Tensor::over(args.dg);
      gradients.dbeta = Tensor::over(args.dbeta);
      (void)backward.bring_back(gradients);
      std::vector<Tensor> copies;
      for (const Tensor& output : kda.outputs) copies.push_back(fla::copy_to(output, {}));
      return copies;
    }
    DeviceCall<fla::KdaArgs> forward;
    DeviceCall<fla::KdaBackwardArgs> backward;
  };

  BackwardCase<fla::KdaArgs> made;
  LocalCall<fla::KdaArgs> forward;
  LocalCall<fla::KdaBackwardArgs> backward;
  std::vector<Tensor> outputs;
};

void expect_bits(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(
        std::memcmp(found[i].data(), expected[i].data(), static_cast<std::size_t>(bytes_of(expected[i]))), 0)
        << "output " << i;
  }
}

TEST_F(OverNccl, ACapturedCallHasTheSameBitsWheneverItIsReplayed) {
  Context context = context_of({0, 200}, {0, 70, 128, 200});
  CudaStream stream;
  const GivenKda kda(context, stream);
  GivenKda::OnDevice eager(kda), captured(kda);
  eager.run(context);
  const std::vector<Tensor> expected = eager.outputs(kda);
  const CudaGraph graph(stream, cudaStreamCaptureModeGlobal, [&] { captured.run(context); });
  for (int replay = 0; replay < 2; ++replay) {
    for (const Tensor& output : kda.outputs) fla::clear(output);
    captured.forward.load(kda.forward.args);
    captured.backward.load(kda.backward.args);
    graph.launch();
    context.synchronize(kGpu, stream.stream());
    expect_bits(captured.outputs(kda), expected);
  }
}

TEST_F(OverNccl, SameCutsHaveTheSameBitsTwice) {
  CudaStream stream;
  std::vector<std::vector<Tensor>> found;
  for (int i = 0; i < 2; ++i) {
    Context context = context_of({0, 200}, {0, 70, 128, 200});
    const GivenKda kda(context, stream);
    GivenKda::OnDevice call(kda);
    call.run(context);
    found.push_back(call.outputs(kda));
    EXPECT_EQ(context.bytes_sent(), 2 * 2 * 2 * 64 * (64 + 64) * 4);  // two pieces that go on, each way
  }
  expect_bits(found[1], found[0]);
}

/// One rank whose blocks are on the host, as MPI's are.
class ThroughTheHost final : public fla::distributed::Transport {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  Tensor all_gather(Tensor mine, std::span<const std::int64_t>, fla::Stream) override {
    EXPECT_TRUE(mine.device().is_cpu());
    return mine;
  }
};

TEST_F(OverNccl, BlocksThatGoThroughTheHostHaveTheSameBits) {
  CudaStream stream;
  Context nccl = context_of({0, 200}, {0, 70, 128, 200}),
          host(std::make_unique<ThroughTheHost>(), Numbers{0, 200}, Placement{{0, 70, 128, 200}, {0, 0, 0}});
  const GivenKda kda(nccl, stream);
  GivenKda::OnDevice over_nccl(kda), over_host(kda);
  over_nccl.run(nccl);
  over_host.run(host);
  const std::vector<Tensor> expected = over_nccl.outputs(kda);
  expect_bits(over_host.outputs(kda), expected);
  EXPECT_EQ(host.bytes_sent(), nccl.bytes_sent());
}

TEST_F(OverNccl, ShortConvHasTheBitsOfAPlainCall) {
  const BackwardCase<fla::KdaArgs> made({.H = 4, .K = 16, .V = 16, .lengths = {41}, .dtype = DType::bf16});
  const fla::TensorView x(made.forward.args.q.data(), DType::bf16, {1, 41, 64});
  const fla::TensorView weight(made.forward.args.k.data(), DType::bf16, {64, 4});
  const Tensor device_x = fla::copy_to(x, kGpu), device_weight = fla::copy_to(weight, kGpu);
  const Tensor whole = fla::copy_to(fla::short_conv({.x = device_x, .weight = device_weight}).o, {});
  Context context = context_of({0, 41}, {0, 2, 4, 5, 20, 41});  // parts that are shorter than the convolution
  const Tensor found =
      fla::copy_to(fla::distributed::short_conv(context, {.x = device_x, .weight = device_weight}).o, {});
  expect_bits({found}, {whole});
}

TEST_F(OverNccl, TensorsOnTheCpuAreRefused) {
  Context context = context_of({0, 200}, {0, 70, 128, 200});
  CudaStream stream;
  const GivenKda kda(context, stream);
  EXPECT_EQ(
      fla_test::error_text<fla::InvalidArgument>(
          [&] { (void)fla::distributed::chunk_kda(context, kda.forward.args); }),
      "kda: q: expected a tensor on cuda:0, where the context's transport is, got f32[1, 200, 2, 64] on cpu");
  EXPECT_EQ(context.bytes_sent(), 0);
}

/// The exchange of a graph is held up by what is behind it: from outside it looks like one that does not end.
TEST_F(OverNccl, WhatTakesTooLongIsAnErrorAndNoHang) {
  std::atomic<bool> go_on{false};
  CudaStream stream;
  {
    Context context =
        context_of({0, 200}, {0, 70, 128, 200}, {.time_limit = std::chrono::duration<double>(0.2)});
    const GivenKda kda(context, stream);
    GivenKda::OnDevice call(kda);
    call.run(context);
    context.synchronize(kGpu, stream.stream());
    const CudaGraph graph(stream, cudaStreamCaptureModeGlobal, [&] { call.run(context); });
    graph.launch();
    const auto hold = [](void* flag) {
      while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
    };
    fla::check_cuda(cudaLaunchHostFunc(stream.handle(), hold, &go_on), "holding a stream up");
    const std::string expected = "fla::distributed on rank 0: the exchange took more than 0.200000 s";
    EXPECT_EQ(fla_test::error_text<fla::BackendError>([&] { context.synchronize(kGpu, stream.stream()); }),
              expected);
    EXPECT_EQ(fla_test::error_text<fla::BackendError>([&] { call.run(context); }), expected);
    go_on = true;
    communicator_ = nullptr;  // NCCL has freed it
  }
  stream.synchronize();
}

}  // namespace
