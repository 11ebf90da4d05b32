// fla_bench_step [cpu|cuda] [N] [H] [f32|bf16]: kda_step of a layer with H heads, K = V = 128, W = 4, beside
// the three ops that it is made of. On a GPU inputs are bf16, the states as given, and both graphs hold as
// many steps as touch a quarter of a gigabyte of states, as layers one after another do. Times are of one
// step.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "fla/core/device_memory.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/ops/ops.h"
#include "tools/bench/seconds.h"
#include "tools/bench/steps.h"

namespace {

using fla::DType;
using fla::Tensor;
using fla::TensorView;

struct Bench {
  fla::Device device{};
  std::int64_t N = 128, H = 12;
  DType inputs = DType::f32, state = DType::f32;
};

void run(const Bench& bench) {
  constexpr std::int64_t K = 128, V = 128, W = 4;
  const fla::Device device = bench.device;
  const std::int64_t N = bench.N, H = bench.H;
  const DType inputs = bench.inputs, states = bench.state;
  const std::int64_t D = 3 * H * K, bytes = N * H * K * V * static_cast<std::int64_t>(fla::size_of(states));
  const std::int64_t most = device.is_cpu() ? 2 : 512,
                     layers = std::clamp<std::int64_t>((1 << 28) / bytes, 2, most);
  const auto random = [&](std::vector<std::int64_t> shape, DType dtype, float low, float high) {
    return fla::bench::random(device, std::move(shape), dtype, low, high);
  };
  const Tensor x = random({N, 1, D}, inputs, -1, 1), weight = random({D, W}, inputs, -0.5f, 0.5f),
               g = random({N, 1, H, K}, inputs, -1, 1), beta = random({N, 1, H}, inputs, -1, 1),
               z = random({N, 1, H, V}, inputs, -1, 1), norm_weight = random({V}, inputs, 0.5f, 1.5f),
               A_log = random({H}, DType::f32, -1, 0), dt_bias = random({H, K}, DType::f32, -1, 1),
               qkv = random({N, 1, D}, inputs, 0, 0), o = random({N, 1, H, V}, inputs, 0, 0),
               out = random({N, 1, H, V}, inputs, 0, 0),
               conv_state = Tensor::zeros({layers * N, D, W - 1}, inputs, device),
               state = Tensor::zeros({layers * N, H, K, V}, states, device);
  const auto heads = [&](std::int64_t begin) {
    return TensorView(qkv.as<std::byte>() + begin * static_cast<std::int64_t>(fla::size_of(inputs)), inputs,
                      {N, 1, H, K}, {D, D, K, 1}, device);
  };
  fla::KdaStepArgs step{
      .x = x, .conv_weight = weight, .conv_state = conv_state, .g = g, .beta = beta, .z = z};
  step.state = state, step.A_log = A_log, step.dt_bias = dt_bias, step.norm_weight = norm_weight,
  step.out = out;
  step.use_qk_l2norm_in_kernel = step.use_gate_in_kernel = step.use_beta_sigmoid_in_kernel = true;
  step.norm_use_sigmoid = true;
  fla::ShortConvArgs conv{.x = x, .weight = weight, .use_silu = true, .out = qkv};
  fla::KdaArgs token{.q = heads(0), .k = heads(H * K), .v = heads(2 * H * K), .g = g, .beta = beta};
  token.use_qk_l2norm_in_kernel = token.use_gate_in_kernel = token.use_beta_sigmoid_in_kernel = true;
  token.A_log = A_log, token.dt_bias = dt_bias, token.out = o;
  fla::GatedRmsNormArgs norm{.x = o, .g = z, .weight = norm_weight, .use_sigmoid = true, .out = out};

  const auto for_each_layer = [&](auto&& body) {
    return fla::bench::seconds(device,
                               [&](fla::Stream stream) {
                                 for (std::int64_t layer = 0; layer < layers; ++layer)
                                   body(stream, conv_state.view().slice(0, layer * N, N),
                                        state.view().slice(0, layer * N, N));
                               }) /
           static_cast<double>(layers);
  };
  const double fused =
      for_each_layer([&](fla::Stream stream, const TensorView& inputs_of, const TensorView& state_of) {
        step.stream = stream, step.conv_state = inputs_of, step.state = state_of;
        fla::kda_step(step);
      });
  const double apart =
      for_each_layer([&](fla::Stream stream, const TensorView& inputs_of, const TensorView& state_of) {
        conv.stream = token.stream = norm.stream = stream;
        conv.initial_state = conv.final_state = inputs_of;
        token.initial_state = token.final_state = state_of;
        fla::short_conv(conv);
        fla::fused_recurrent_kda(token);
        fla::gated_rms_norm(norm);
      });
  std::printf("N=%lld H=%lld state %s: kda_step (%s) %.2f us, three ops (%s) %.2f us, %.2fx\n",
              static_cast<long long>(N), static_cast<long long>(H), std::string(fla::name_of(states)).c_str(),
              fla::explain("kda_step", "kda_step", step).selected.c_str(), fused * 1e6,
              fla::explain("kda", "fused_recurrent_kda", token).selected.c_str(), apart * 1e6, fused / apart);
}

}  // namespace

int main(int argc, char** argv) {
  Bench bench;
  if (argc > 1 && std::string(argv[1]) == "cuda") {
    bench.device = {fla::DeviceType::cuda, 0};
    bench.inputs = DType::bf16;
  }
  if (argc > 2) bench.N = std::atoll(argv[2]);
  if (argc > 3) bench.H = std::atoll(argv[3]);
  if (argc > 4 && std::string(argv[4]) == "bf16") bench.state = DType::bf16;
  run(bench);
}
