// fla_bench_replay [cpu|cuda] [N] [H] [T] [L] [f32|bf16]: kda's steps over rings beside steps that write
// their states, K = V = 128. Inputs and the states have the dtypes that are given, on a CPU both f32. Times
// are of one step, the mean over a cycle from one fold to the next; on a GPU the cycle is one graph.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fla/core/device_memory.h"
#include "fla/dispatch/observe/explain.h"
#include "fla/ops/kda/kda.h"
#include "tools/bench/seconds.h"
#include "tools/bench/steps.h"

namespace {

using fla::DType;
using fla::Tensor;

struct Bench {
  fla::Device device{};
  std::int64_t N = 128, H = 32, T = 1, L = 16;
  DType inputs = DType::f32, state = DType::f32;
};

void run(const Bench& bench) {
  constexpr std::int64_t K = 128, V = 128;
  const auto [device, N, H, T, L, inputs, states] = bench;
  const Tensor q = fla::bench::random(device, {N, T, H, K}, inputs, -0.1f, 0.1f),
               k = fla::bench::random(device, {N, T, H, K}, inputs, -0.1f, 0.1f),
               v = fla::bench::random(device, {N, T, H, V}, inputs, -1, 1),
               g = fla::bench::random(device, {N, T, H, K}, inputs, -0.5f, 0),
               beta = fla::bench::random(device, {N, T, H}, inputs, 0, 1),
               state = fla::bench::random(device, {N, H, K, V}, states, -1, 1),
               o = fla::bench::random(device, {N, T, H, V}, inputs, 0, 0),
               ring_k = fla::bench::random(device, {N, L, H, K}, inputs, 0, 0),
               ring_g = fla::bench::random(device, {N, L, H, K}, inputs, 0, 0),
               ring_u = fla::bench::random(device, {N, L, H, V}, DType::f32, 0, 0);
  fla::KdaArgs plain{
      .q = q, .k = k, .v = v, .g = g, .beta = beta, .initial_state = state, .out = o, .final_state = state};
  fla::KdaReplayArgs step{.q = q,
                          .k = k,
                          .v = v,
                          .g = g,
                          .beta = beta,
                          .state = state,
                          .ring_k = ring_k,
                          .ring_u = ring_u,
                          .ring_g = ring_g,
                          .out = o};
  // All sequences fold at once, and none before the cycle's last step.
  std::vector<Tensor> indices;
  std::vector<fla::KdaReplayArgs> cycle;
  for (fla::RingCursor cursor{0, T}; cursor.begin == 0; cursor = fla::next_cursor(cursor, T, T, L)) {
    for (fla::TensorView* index : {&step.ring_begin, &step.ring_end}) {
      const Tensor host = Tensor::empty({N}, DType::i64);
      std::fill_n(host.as<std::int64_t>(), N, index == &step.ring_begin ? cursor.begin : cursor.end);
      indices.push_back(fla::copy_to(host, device));
      *index = indices.back();
    }
    cycle.push_back(step);
  }
  const auto steps = static_cast<double>(cycle.size());
  const double written = fla::bench::seconds(device, [&](fla::Stream stream) {
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      plain.stream = stream;
      fla::fused_recurrent_kda(plain);
    }
  });
  const double replayed = fla::bench::seconds(device, [&](fla::Stream stream) {
    for (fla::KdaReplayArgs& each : cycle) {
      each.stream = stream;
      fla::replay_kda(each);
    }
  });
  std::printf(
      "N=%lld H=%lld T=%lld L=%lld state %s: fused_recurrent_kda (%s) %.4f ms, replay_kda (%s) %.4f ms, "
      "%.2fx\n",
      static_cast<long long>(N), static_cast<long long>(H), static_cast<long long>(T),
      static_cast<long long>(L), std::string(fla::name_of(states)).c_str(),
      fla::explain("kda", "fused_recurrent_kda", plain).selected.c_str(), written / steps * 1e3,
      fla::explain("kda", "replay_kda", cycle.front()).selected.c_str(), replayed / steps * 1e3,
      replayed / written);
}

}  // namespace

int main(int argc, char** argv) {
  Bench bench;
  const auto number = [&](int i, std::int64_t otherwise) {
    return argc > i ? std::atoll(argv[i]) : otherwise;
  };
  if (argc > 1 && std::string(argv[1]) == "cuda") {
    bench.device = {fla::DeviceType::cuda, 0};
    bench.inputs = DType::bf16;
  }
  bench.N = number(2, bench.N), bench.H = number(3, bench.H), bench.T = number(4, 1), bench.L = number(5, 16);
  if (argc > 6 && std::string(argv[6]) == "bf16") bench.state = DType::bf16;
  run(bench);
}
