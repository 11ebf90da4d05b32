#pragma once

#include <string_view>
#include <vector>

#include "tools/fla/bench_cuda.h"

/// The calls that libraries for linear attention are compared by, with their published times: one NVIDIA
/// H200, inputs bf16, K = V = 128, gate (lower bound -5), norm and sigmoid inside, CUDA events, medians.
/// flash-linear-attention is the faster of versions 0.5.2 and 0.6.0 where both are known, FlashKDA is commit
/// 1ce47ea, cuLA is that of August 2026 with its segments where heads are few; their forward passes are
/// called eagerly. The goals are fla's own: what beats the newest forks of these too.
namespace fla::command {

/// Prefill, f32 state in and out; the last four have few heads, as servers with many GPUs do. The mixed
/// lengths are 1300, 547, 2048, 963, 271 and 3063.
std::vector<CudaCase> peers_forward();

/// One token a sequence, the state updated in place: f32 and bf16, [K, V] and [V, K]. Published is f32.
std::vector<CudaCase> peers_decode();

/// Forward and backward of one call together, of kda or gated_delta_rule; of no other op. Published are
/// flash-linear-attention 0.6.0 and FlashQLA.
std::vector<CudaCase> peers_backward(std::string_view op);

}  // namespace fla::command
