#include <algorithm>

#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/common/cuda/memory_parts.h"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/summary.h"

namespace fla::cuda {
namespace {

constexpr int kIdentityThreads = 128;

/// A block writes a row.
__global__ void write_identity(float* zero, float* identity, int size) {
  const int row = static_cast<int>(blockIdx.x);
  for (int j = static_cast<int>(threadIdx.x); j < size; j += kIdentityThreads)
    identity[row * size + j] = row == j ? 1.0f : 0.0f;
  if (row == 0 && threadIdx.x == 0) *zero = 0;
}

/// What P starts from, and the room that the kernels share.
struct Memory {
  float *zero = nullptr, *identity = nullptr;
  char* kernels = nullptr;
  std::size_t bytes = 0;

  Memory(const SummaryCall& call, void* memory) {
    const CallExtras extras{.pair = call.pair};
    const std::size_t most = std::max(
        chunk_workspace(call.transition, extras),
        call.of_gradients ? backward_workspace(call.backward) : chunk_workspace(call.forward, extras));
    MemoryParts cut{static_cast<char*>(memory)};
    cut.next(zero, 1), cut.next(identity, std::int64_t{call.transition.V} * call.transition.V);
    cut.next(kernels, static_cast<std::int64_t>(most));
    bytes = cut.bytes;
  }
};

}  // namespace

std::size_t summary_workspace(const SummaryCall& call) { return Memory(call, nullptr).bytes; }

cudaError_t launch_summary(const SummaryCall& call, void* workspace, cudaStream_t stream) {
  const Memory memory(call, workspace);
  const CallExtras extras{.pair = call.pair};
  cudaError_t error = call.of_gradients ? launch_backward(call.backward, memory.kernels, stream)
                                        : launch_chunk(call.forward, extras, memory.kernels, stream);
  if (error != cudaSuccess || !call.with_P) return error;
  RecurrenceCall transition = call.transition;
  transition.v.data = memory.zero;
  transition.initial_state.data = memory.identity;
  error = launch_blocks<write_identity, 0>(transition.V, kIdentityThreads, stream, memory.zero,
                                           memory.identity, transition.V);
  return error == cudaSuccess ? launch_chunk(transition, extras, memory.kernels, stream) : error;
}

}  // namespace fla::cuda
