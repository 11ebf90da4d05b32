#pragma once

#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/recurrence/cuda/chunk_launch.h"
#include "fla/ops/recurrence/cuda/chunk_pairs.cuh"
#include "fla/ops/recurrence/cuda/chunk_prepare.cuh"
#include "fla/ops/recurrence/cuda/chunk_state.cuh"

namespace fla::cuda {

template <int KP, Decay decay, Rule rule>
cudaError_t launch_chunk_kernels(const RecurrenceCall& call, const Checkpoints& checkpoints, void* workspace,
                                 cudaStream_t stream) {
  constexpr int kSmallest = 99 * 1024;  // shared memory of a block on sm_86 and sm_89
  const std::int64_t places = chunk_places<chunk_size(KP)>(call);
  const ChunkWorkspace<KP, decay, rule> operators(call, places, workspace);
  cudaError_t error;
  if constexpr (decay == Decay::channel) {
    constexpr int kPrepare = sizeof(PrepareMemory<KP, rule>);
    static_assert(kPrepare <= kSmallest);
    error = launch_blocks<chunk_prepare<KP, rule, ChunkWorkspace<KP, decay, rule>>, kPrepare>(
        places * call.HV, kThreads, stream, call, operators);
  } else {
    constexpr int kPairs = sizeof(PairsMemory<KP>);
    static_assert(kPairs <= kSmallest);
    error = launch_blocks<chunk_pairs<KP, rule>, kPairs>(places * (call.HV / call.group), kThreads, stream,
                                                         call, operators);
  }
  if (error != cudaSuccess) return error;
  constexpr int kState = sizeof(StateMemory<KP, decay, rule>);
  static_assert(kState <= kSmallest);
  const std::int64_t blocks = call.N * call.HV * ((call.V + kStateValues - 1) / kStateValues);
  return launch_blocks<chunk_state<KP, decay, rule>, kState>(blocks, StateMemory<KP, decay, rule>::kThreads,
                                                             stream, call, operators, checkpoints);
}

/// Instantiates all kernels for one KP.
#define FLA_CHUNK_KERNELS(KP)                          \
  namespace fla::cuda {                                \
  FLA_CHUNK_KERNEL(KP, Decay::channel, Rule::delta)    \
  FLA_CHUNK_KERNEL(KP, Decay::channel, Rule::additive) \
  FLA_CHUNK_KERNEL(KP, Decay::token, Rule::delta)      \
  FLA_CHUNK_KERNEL(KP, Decay::token, Rule::additive)   \
  }
#define FLA_CHUNK_KERNEL(...)                                                                              \
  template cudaError_t launch_chunk_kernels<__VA_ARGS__>(const RecurrenceCall&, const Checkpoints&, void*, \
                                                         cudaStream_t);

}  // namespace fla::cuda
