#pragma once

#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/recurrence/cuda/chunk_launch.h"
#include "fla/ops/recurrence/cuda/chunk_pairs.cuh"
#include "fla/ops/recurrence/cuda/chunk_prepare.cuh"
#include "fla/ops/recurrence/cuda/chunk_state.cuh"

namespace fla::cuda {

inline constexpr int kSmallestShared = 99 * 1024;  // shared memory of a block on sm_86 and sm_89

template <int KP, Decay decay, Rule rule>
cudaError_t launch_operators(const RecurrenceCall& call, void* workspace, cudaStream_t stream) {
  const std::int64_t places = chunk_places<chunk_size(KP)>(call);
  const ChunkWorkspace<KP, decay, rule> operators(call, places, workspace);
  if constexpr (decay == Decay::channel) {
    constexpr int kPrepare = sizeof(PrepareMemory<KP, rule>);
    static_assert(kPrepare <= kSmallestShared);
    return launch_blocks<chunk_prepare<KP, rule, ChunkWorkspace<KP, decay, rule>>, kPrepare>(
        places * call.HV, kThreads, stream, call, operators);
  } else {
    constexpr int kPairs = sizeof(PairsMemory<KP>);
    static_assert(kPairs <= kSmallestShared);
    return launch_blocks<chunk_pairs<KP, rule>, kPairs>(places * (call.HV / call.group), kThreads, stream,
                                                        call, operators);
  }
}

template <int KP, Decay decay, Rule rule>
cudaError_t launch_states(const RecurrenceCall& call, const Checkpoints& checkpoints, void* workspace,
                          cudaStream_t stream) {
  const ChunkWorkspace<KP, decay, rule> operators(call, chunk_places<chunk_size(KP)>(call), workspace);
  constexpr int kState = sizeof(StateMemory<KP, decay, rule>);
  static_assert(kState <= kSmallestShared);
  const std::int64_t blocks = call.N * call.HV * ((call.V + kStateValues - 1) / kStateValues);
  const auto launch = [&]<bool outputs>(std::bool_constant<outputs>) {
    return launch_blocks<chunk_state<KP, decay, rule, outputs>, kState>(
        blocks, StateMemory<KP, decay, rule>::kThreads, stream, call, operators, checkpoints);
  };
  return call.o.data ? launch(std::true_type{}) : launch(std::false_type{});
}

/// Instantiates all kernels for one KP.
#define FLA_CHUNK_KERNELS(KP)                          \
  namespace fla::cuda {                                \
  FLA_CHUNK_KERNEL(KP, Decay::channel, Rule::delta)    \
  FLA_CHUNK_KERNEL(KP, Decay::channel, Rule::additive) \
  FLA_CHUNK_KERNEL(KP, Decay::token, Rule::delta)      \
  FLA_CHUNK_KERNEL(KP, Decay::token, Rule::additive)   \
  }
#define FLA_CHUNK_KERNEL(...)                                                                       \
  template cudaError_t launch_operators<__VA_ARGS__>(const RecurrenceCall&, void*, cudaStream_t);   \
  template cudaError_t launch_states<__VA_ARGS__>(const RecurrenceCall&, const Checkpoints&, void*, \
                                                  cudaStream_t);

}  // namespace fla::cuda
