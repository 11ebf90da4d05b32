#pragma once

#include <string_view>
#include <vector>

#include "tools/fla/bench_cuda.h"

/// The calls that libraries for linear attention are compared by, with their times, which are those of
/// tools/bench/results/peers.txt: one NVIDIA H200, inputs bf16, K = V = 128, gate (lower bound -5), norm and
/// sigmoid inside, CUDA events, medians. That file says which versions they are. The goals are fla's own:
/// what beats the newest forks of these too. `gates` is the kind of data; times are those with such gates.
namespace fla::command {

/// Prefill of kda or gated_delta_rule, f32 state in and out; of no other op. Many have few heads, as servers
/// with many GPUs do. The mixed lengths are 1300, 547, 2048, 963, 271 and 3063.
std::vector<CudaCase> peers_forward(std::string_view op, std::string_view gates);

/// One token a sequence, the state updated in place: f32 and bf16, [K, V] and [V, K]. Published is f32.
std::vector<CudaCase> peers_decode();

/// Forward and backward of one call together, of kda or gated_delta_rule; of no other op. Published are
/// flash-linear-attention and FlashQLA.
std::vector<CudaCase> peers_backward(std::string_view op, std::string_view gates);

}  // namespace fla::command
