#include <algorithm>

#include "fla/ops/common/cuda/memory_parts.h"
#include "fla/ops/recurrence/cuda/extra_indices.cuh"
#include "fla/ops/recurrence/cuda/identity.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"
#include "fla/ops/recurrence/cuda/summary.h"

namespace fla::cuda {
namespace {

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
  CallExtras extras{.pair = call.pair};
  RecurrenceCall transition = call.transition;
  transition.v.data = memory.zero;
  transition.initial_state.data = memory.identity;
  cudaError_t error =
      call.with_P ? write_identity(memory.zero, memory.identity, transition.V, stream) : cudaSuccess;
  if (error != cudaSuccess) return error;
  if (call.of_gradients) {
    error = launch_backward(call.backward, memory.kernels, stream);
    return error == cudaSuccess && call.with_P ? launch_chunk(transition, extras, memory.kernels, stream)
                                               : error;
  }
  // Tokens have the same operators in both calls.
  RecurrenceCall forward = call.forward;
  error = place_host_indices(forward, extras, memory.kernels, stream);
  if (error != cudaSuccess) return error;
  void* const operators = memory.kernels + index_workspace(call.forward, extras);
  error = launch_chunk_operators(forward, operators, stream);
  if (error != cudaSuccess) return error;
  error = launch_chunk_states(forward, extras, operators, stream);
  if (error != cudaSuccess || !call.with_P) return error;
  transition.cu_seqlens = forward.cu_seqlens;
  return launch_chunk_states(transition, extras, operators, stream);
}

}  // namespace fla::cuda
