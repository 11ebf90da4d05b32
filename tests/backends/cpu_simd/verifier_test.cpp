#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "fla/core/errors.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/ops.h"
#include "tools/cases/backward_case.h"
#include "tools/cases/random_case.h"
#include "tools/cases/with_op.h"

namespace {

using fla::DplrDeltaRuleArgs;
using fla::DType;
using fla::KdaArgs;
using fla::KdaBackwardArgs;
using fla::LinearAttnBackwardArgs;
using fla::TensorView;

/// A function of an op under its name.
template <class Args>
using NamedFunction = std::pair<std::string_view, typename Args::Result (*)(const Args&)>;

constexpr NamedFunction<KdaArgs> kKdaFunctions[] = {{"chunk_kda", fla::chunk_kda},
                                                    {"fused_recurrent_kda", fla::fused_recurrent_kda}};
constexpr NamedFunction<KdaBackwardArgs> kKdaGradients[] = {{"chunk_kda_backward", fla::chunk_kda_backward}};
constexpr NamedFunction<LinearAttnBackwardArgs> kLinearGradients[] = {
    {"chunk_linear_attn_backward", fla::chunk_linear_attn_backward}};
constexpr NamedFunction<DplrDeltaRuleArgs> kLowRankFunctions[] = {
    {"chunk_dplr_delta_rule", fla::chunk_dplr_delta_rule},
    {"fused_recurrent_dplr_delta_rule", fla::fused_recurrent_dplr_delta_rule}};

/// A view of the same shape whose elements lie `inner` apart on the last axis and `row` on the one before it.
TensorView spread(const fla::Tensor& memory, const TensorView& like, std::int64_t inner, std::int64_t row) {
  std::vector<std::int64_t> strides(like.strides().begin(), like.strides().end());
  strides[3] = inner;
  strides[2] = row;
  strides[1] = row * like.size(2);
  strides[0] = strides[1] * like.size(1);
  return TensorView(memory.data(), like.dtype(), like.shape(), strides);
}

/// Expects both verifiers to refuse a call with this reason, and the call to fail with it where cpu_simd is
/// required.
template <class Args>
void expect_refusal_of(const Args& args, std::span<const NamedFunction<Args>> functions,
                       const std::string& reason) {
  const std::string op(Args::kOp.name);
  for (const auto& [name, run] : functions) {
    const fla::Explanation explanation = fla::explain(op, name, args);
    const auto row = std::ranges::find(explanation.rows, "cpu_simd", &fla::Explanation::Row::name);
    ASSERT_NE(row, explanation.rows.end());
    EXPECT_EQ(row->state, "refused");
    EXPECT_EQ(row->reason, reason);
    EXPECT_EQ(explanation.selected, "original");
    const fla::ScopedPolicy required({.require = {{op, "cpu_simd"}}});
    try {
      run(args);
      ADD_FAILURE() << name << " ran";
    } catch (const fla::BackendError& error) {
      EXPECT_EQ(error.what(),
                op + "." + std::string(name) + ": backend cpu_simd is required and refused: " + reason);
    }
  }
}

class CpuSimdVerifier : public testing::Test {
 protected:
  static constexpr std::int64_t kT = 3, kH = 2, kK = 8, kV = 4;

  /// Of a call that cpu_simd takes, once it is spoilt.
  void expect_refusal(const std::function<void(KdaArgs&)>& spoil, const std::string& reason) {
    KdaArgs args = call_.args;
    spoil(args);
    expect_refusal_of<KdaArgs>(args, kKdaFunctions, reason);
  }
  void expect_refusal(const std::function<void(DplrDeltaRuleArgs&)>& spoil, const std::string& reason) {
    DplrDeltaRuleArgs args = low_rank_call_.args;
    spoil(args);
    expect_refusal_of<DplrDeltaRuleArgs>(args, kLowRankFunctions, reason);
  }

  void expect_refusal(const std::function<void(KdaBackwardArgs&)>& spoil, const std::string& reason) {
    KdaBackwardArgs args = fla::cases::backward_call(call_.args, upstream_, of_state_);
    spoil(args);
    expect_refusal_of<KdaBackwardArgs>(args, kKdaGradients, reason);
  }

  fla::cases::KdaCase call_ = fla::cases::make_kda_case({.T = kT, .H = kH, .K = kK, .V = kV});
  fla::cases::RandomCase<DplrDeltaRuleArgs> low_rank_call_ =
      fla::cases::make_case<DplrDeltaRuleArgs>({.T = kT, .H = kH, .K = kK, .V = kV});
  fla::Tensor upstream_ = fla::Tensor::zeros({1, kT, kH, kV}, DType::f32),
              of_state_ = fla::Tensor::zeros({1, kH, kK, kV}, DType::f32);
  fla::Tensor room_ = fla::Tensor::zeros({4096}, DType::f32);
};

TEST_F(CpuSimdVerifier, TakesAnOrdinaryCall) {
  for (const auto& [name, run] : kKdaFunctions)
    EXPECT_EQ(fla::explain("kda", name, call_.args).selected, "cpu_simd");
  for (const auto& [name, run] : kLowRankFunctions)
    EXPECT_EQ(fla::explain("dplr_delta_rule", name, low_rank_call_.args).selected, "cpu_simd");
}

TEST_F(CpuSimdVerifier, RefusesCudaTensors) {
  const fla::Device device{fla::DeviceType::cuda, 1};
  expect_refusal(
      [&](KdaArgs& args) {
        for (const fla::Argument& argument : KdaArgs::arguments()) {
          if (!argument.is_tensor()) continue;
          TensorView& tensor = argument.tensor(static_cast<void*>(&args));
          if (tensor.defined()) tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), device);
        }
      },
      "requires CPU tensors, got cuda:1");
}

TEST_F(CpuSimdVerifier, RefusesCheckpointsInsideOfChunks) {
  const fla::Tensor states = fla::Tensor::zeros({1, kT, kH, kK, kV}, DType::f32);
  KdaArgs args = call_.args;
  args.checkpoint_every = 12, args.checkpoints = states;
  expect_refusal_of<KdaArgs>(args, std::span(kKdaFunctions).first(1),
                             "requires checkpoint_every to be a multiple of 8, got 12");
  EXPECT_EQ(fla::explain("kda", "fused_recurrent_kda", args).selected, "cpu_simd");
  args.checkpoint_every = 16;
  EXPECT_EQ(fla::explain("kda", "chunk_kda", args).selected, "cpu_simd");
}

TEST_F(CpuSimdVerifier, RefusesBf16Checkpoints) {
  const fla::Tensor states = fla::Tensor::zeros({1, kT, kH, kK, kV}, DType::bf16);
  expect_refusal([&](KdaArgs& args) { args.checkpoint_every = 8, args.checkpoints = states; },
                 "requires an f32 checkpoints, got bf16");
  expect_refusal([&](DplrDeltaRuleArgs& args) { args.checkpoint_every = 8, args.checkpoints = states; },
                 "requires an f32 checkpoints, got bf16");
}

TEST_F(CpuSimdVerifier, RefusesScatteredCheckpoints) {
  const TensorView states(room_.data(), DType::f32, {1, 1, kH, kK, kV});
  const std::array<std::int64_t, 5> strides{512, 512, 256, 16, 2};
  expect_refusal(
      [&](KdaArgs& args) {
        args.checkpoint_every = 8;
        args.checkpoints = TensorView(states.data(), DType::f32, states.shape(), strides);
      },
      "requires contiguous states in checkpoints, got strides 16 and 2");
}

TEST_F(CpuSimdVerifier, RefusesScatteredQueries) {
  expect_refusal([&](KdaArgs& args) { args.q = spread(room_, args.q, 2, 16); },
                 "requires contiguous channels in q, got stride 2");
}

TEST_F(CpuSimdVerifier, RefusesScatteredKeys) {
  expect_refusal([&](KdaArgs& args) { args.k = spread(room_, args.k, 3, 24); },
                 "requires contiguous channels in k, got stride 3");
}

TEST_F(CpuSimdVerifier, RefusesScatteredValues) {
  expect_refusal([&](KdaArgs& args) { args.v = spread(room_, args.v, 2, 8); },
                 "requires contiguous channels in v, got stride 2");
}

TEST_F(CpuSimdVerifier, RefusesScatteredGates) {
  expect_refusal([&](KdaArgs& args) { args.g = spread(room_, args.g, 4, 32); },
                 "requires contiguous channels in g, got stride 4");
}

TEST_F(CpuSimdVerifier, RefusesAScatteredPair) {
  expect_refusal([&](DplrDeltaRuleArgs& args) { args.a = spread(room_, args.a, 2, 16); },
                 "requires contiguous channels in a, got stride 2");
  expect_refusal([&](DplrDeltaRuleArgs& args) { args.b = spread(room_, args.b, 5, 40); },
                 "requires contiguous channels in b, got stride 5");
}

TEST_F(CpuSimdVerifier, RefusesScatteredOutput) {
  expect_refusal([&](KdaArgs& args) { args.out = spread(room_, args.v, 2, 8); },
                 "requires contiguous channels in out, got stride 2");
}

TEST_F(CpuSimdVerifier, RefusesBf16InitialState) {
  expect_refusal(
      [&](KdaArgs& args) {
        args.initial_state = TensorView(room_.data(), DType::bf16, args.initial_state.shape());
      },
      "requires an f32 initial_state, got bf16");
}

TEST_F(CpuSimdVerifier, RefusesScatteredInitialState) {
  expect_refusal([&](KdaArgs& args) { args.initial_state = spread(room_, args.initial_state, 1, 5); },
                 "requires contiguous states in initial_state, got strides 5 and 1");
  expect_refusal([&](KdaArgs& args) { args.initial_state = spread(room_, args.initial_state, 2, 8); },
                 "requires contiguous states in initial_state, got strides 8 and 2");
}

TEST_F(CpuSimdVerifier, RefusesBf16FinalState) {
  expect_refusal(
      [&](KdaArgs& args) {
        args.final_state = TensorView(room_.data(), DType::bf16, args.initial_state.shape());
      },
      "requires an f32 final_state, got bf16");
}

TEST_F(CpuSimdVerifier, RefusesScatteredFinalState) {
  expect_refusal([&](KdaArgs& args) { args.final_state = spread(room_, args.initial_state, 1, 5); },
                 "requires contiguous states in final_state, got strides 5 and 1");
  expect_refusal([&](KdaArgs& args) { args.final_state = spread(room_, args.initial_state, 2, 8); },
                 "requires contiguous states in final_state, got strides 8 and 2");
}

TEST_F(CpuSimdVerifier, RefusesGradientsOnCuda) {
  const fla::Device device{fla::DeviceType::cuda, 1};
  expect_refusal(
      [&](KdaBackwardArgs& args) {
        for (const fla::Argument& argument : KdaBackwardArgs::arguments()) {
          if (!argument.is_tensor()) continue;
          TensorView& tensor = argument.tensor(static_cast<void*>(&args));
          if (tensor.defined()) tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), device);
        }
      },
      "requires CPU tensors, got cuda:1");
}

TEST_F(CpuSimdVerifier, RefusesGradientsOfScatteredInputs) {
  using Args = KdaBackwardArgs;
  expect_refusal([&](Args& args) { args.q = spread(room_, args.q, 2, 16); },
                 "requires contiguous channels in q, got stride 2");
  expect_refusal([&](Args& args) { args.k = spread(room_, args.k, 3, 24); },
                 "requires contiguous channels in k, got stride 3");
  expect_refusal([&](Args& args) { args.v = spread(room_, args.v, 2, 8); },
                 "requires contiguous channels in v, got stride 2");
  expect_refusal([&](Args& args) { args.g = spread(room_, args.g, 4, 32); },
                 "requires contiguous channels in g, got stride 4");
  expect_refusal([&](Args& args) { args.do_ = spread(room_, args.do_, 2, 8); },
                 "requires contiguous channels in do, got stride 2");
}

TEST_F(CpuSimdVerifier, RefusesScatteredGradients) {
  using Args = KdaBackwardArgs;
  expect_refusal([&](Args& args) { args.dq = spread(room_, args.q, 2, 16); },
                 "requires contiguous channels in dq, got stride 2");
  expect_refusal([&](Args& args) { args.dk = spread(room_, args.k, 2, 16); },
                 "requires contiguous channels in dk, got stride 2");
  expect_refusal([&](Args& args) { args.dv = spread(room_, args.v, 2, 8); },
                 "requires contiguous channels in dv, got stride 2");
  expect_refusal([&](Args& args) { args.dg = spread(room_, args.g, 2, 16); },
                 "requires contiguous channels in dg, got stride 2");
}

TEST_F(CpuSimdVerifier, RefusesGradientsWithBf16States) {
  using Args = KdaBackwardArgs;
  const auto bf16 = [&](const TensorView& like) {
    return TensorView(room_.data(), DType::bf16, like.shape());
  };
  expect_refusal([&](Args& args) { args.initial_state = bf16(args.initial_state); },
                 "requires an f32 initial_state, got bf16");
  expect_refusal([&](Args& args) { args.dht = bf16(args.dht); }, "requires an f32 dht, got bf16");
}

TEST_F(CpuSimdVerifier, RefusesGradientsWithScatteredStates) {
  using Args = KdaBackwardArgs;
  expect_refusal([&](Args& args) { args.initial_state = spread(room_, args.initial_state, 1, 5); },
                 "requires contiguous states in initial_state, got strides 5 and 1");
  expect_refusal([&](Args& args) { args.dht = spread(room_, args.dht, 2, 8); },
                 "requires contiguous states in dht, got strides 8 and 2");
  expect_refusal([&](Args& args) { args.dinitial_state = spread(room_, args.initial_state, 1, 5); },
                 "requires contiguous states in dinitial_state, got strides 5 and 1");
}

TEST_F(CpuSimdVerifier, RefusesGradientsOfNormalizedOutputs) {
  const auto call = fla::cases::make_case<fla::LinearAttnArgs>({.T = kT, .H = kH, .K = kK, .V = kV});
  LinearAttnBackwardArgs args = fla::cases::backward_call(call.args, upstream_, of_state_);
  args.normalize = true;
  expect_refusal_of<LinearAttnBackwardArgs>(args, kLinearGradients,
                                            "requires outputs that are not normalized");
}

/// A step over rings that cpu_simd takes.
template <class Args>
class ReplayStep {
 public:
  using Replay = typename Args::Replay;
  static constexpr NamedFunction<Replay> kFunctions[] = {
      {Args::kOp.replay, fla::cases::Functions<Args>::replay}};

  ReplayStep() {
    const Args& call = call_.args;
    args.q = call.q, args.k = call.k, args.v = call.v, args.g = call.g;
    args.state = call.initial_state;
    args.ring_begin = args.ring_end = TensorView(counts_.data(), DType::i64, {1});
    args.ring_k = rings_[0], args.ring_u = rings_[1], args.ring_g = rings_[2];
    if constexpr (requires { args.beta; }) args.beta = call.beta;
    if constexpr (requires { args.a; })
      args.a = call.a, args.b = call.b, args.ring_b = rings_[3], args.ring_w = rings_[4];
  }

  void expect_refusal(TensorView Replay::*member, const TensorView& spoiled,
                      const std::string& reason) const {
    Replay call = args;
    call.*member = spoiled;
    expect_refusal_of<Replay>(call, kFunctions, reason);
  }
  /// Of rows whose channels are two apart.
  void expect_refusal_of_rows(TensorView Replay::*member, const std::string& name) const {
    const TensorView& rows = args.*member;
    expect_refusal(member, spread(room_, rows.defined() ? rows : args.v, 2, 2 * args.v.size(3)),
                   "requires contiguous channels in " + name + ", got stride 2");
  }

  Replay args;

 private:
  fla::cases::RandomCase<Args> call_ = fla::cases::make_case<Args>({.T = 3, .H = 2, .K = 8, .V = 8});
  std::vector<std::int64_t> counts_{0};
  std::vector<fla::Tensor> rings_ = [] {
    std::vector<fla::Tensor> made;
    made.reserve(5);
    for (int i = 0; i < 5; ++i) made.push_back(fla::Tensor::zeros({1, 8, 2, 8}, DType::f32));
    return made;
  }();
  fla::Tensor room_ = fla::Tensor::zeros({4096}, DType::f32);
};

TEST(CpuSimdReplayVerifier, TakesAnOrdinaryStep) {
  EXPECT_EQ(fla::explain("kda", "replay_kda", ReplayStep<KdaArgs>().args).selected, "cpu_simd");
  EXPECT_EQ(fla::explain("dplr_delta_rule", "replay_dplr_delta_rule", ReplayStep<DplrDeltaRuleArgs>().args)
                .selected,
            "cpu_simd");
}

TEST(CpuSimdReplayVerifier, RefusesCudaTensors) {
  ReplayStep<KdaArgs> step;
  for (const fla::Argument& argument : fla::KdaReplayArgs::arguments()) {
    if (!argument.is_tensor() || argument.kind == fla::ArgumentKind::index) continue;
    TensorView& tensor = argument.tensor(static_cast<void*>(&step.args));
    if (tensor.defined())
      tensor =
          TensorView(tensor.data(), tensor.dtype(), tensor.shape(), fla::Device{fla::DeviceType::cuda, 1});
  }
  expect_refusal_of<fla::KdaReplayArgs>(step.args, ReplayStep<KdaArgs>::kFunctions,
                                        "requires CPU tensors, got cuda:1");
}

TEST(CpuSimdReplayVerifier, RefusesScatteredRows) {
  using Kda = fla::KdaReplayArgs;
  using Dplr = fla::DplrDeltaRuleReplayArgs;
  const ReplayStep<KdaArgs> kda;
  kda.expect_refusal_of_rows(&Kda::q, "q");
  kda.expect_refusal_of_rows(&Kda::k, "k");
  kda.expect_refusal_of_rows(&Kda::v, "v");
  kda.expect_refusal_of_rows(&Kda::g, "g");
  kda.expect_refusal_of_rows(&Kda::ring_k, "ring_k");
  kda.expect_refusal_of_rows(&Kda::ring_u, "ring_u");
  kda.expect_refusal_of_rows(&Kda::ring_g, "ring_g");
  kda.expect_refusal_of_rows(&Kda::out, "out");
  const ReplayStep<DplrDeltaRuleArgs> dplr;
  dplr.expect_refusal_of_rows(&Dplr::a, "a");
  dplr.expect_refusal_of_rows(&Dplr::b, "b");
  dplr.expect_refusal_of_rows(&Dplr::ring_b, "ring_b");
  dplr.expect_refusal_of_rows(&Dplr::ring_w, "ring_w");
}

TEST(CpuSimdReplayVerifier, RefusesStatesThatItCannotRead) {
  const ReplayStep<KdaArgs> step;
  const fla::Tensor half = fla::Tensor::zeros({1, 2, 8, 8}, DType::bf16),
                    room = fla::Tensor::zeros({512}, DType::f32);
  step.expect_refusal(&fla::KdaReplayArgs::state, half, "requires an f32 state, got bf16");
  step.expect_refusal(&fla::KdaReplayArgs::state, spread(room, step.args.state, 1, 9),
                      "requires contiguous states in state, got strides 9 and 1");
}

TEST_F(CpuSimdVerifier, TakesOneChannelWhateverItsStride) {
  fla::cases::KdaCase call = fla::cases::make_kda_case({.T = 2, .H = 1, .K = 1, .V = 1});
  call.args.q = spread(room_, call.args.q, 7, 7);
  call.args.v = spread(room_, call.args.v, 5, 5);
  EXPECT_EQ(fla::explain("kda", "chunk_kda", call.args).selected, "cpu_simd");
}

}  // namespace
