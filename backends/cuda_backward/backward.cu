#include "backends/cuda_backward/backward.h"
#include "backends/cuda_backward/carry.cuh"
#include "backends/cuda_backward/gradients.cuh"
#include "backends/cuda_backward/prepare.cuh"
#include "backends/cuda_backward/scales.cuh"
#include "backends/cuda_backward/token_gradients.cuh"
#include "backends/cuda_backward/token_prepare.cuh"
#include "fla/ops/common/cuda/host_indices.cuh"
#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/recurrence/cuda/backward/rows.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

namespace fla::cuda_backward {
namespace {

/// The launches of one call, one after another; none after one that failed.
class Launches {
 public:
  Launches(const BackwardCall& back, char* memory, int multiprocessors, cudaStream_t stream)
      : back_(back),
        call_(back.call),
        memory_(call_, memory),
        multiprocessors_(multiprocessors),
        stream_(stream) {}

  cudaError_t run() { return call_.gate_kind == GateKind::channel ? run<true>() : run<false>(); }

 private:
  template <bool by_channel>
  cudaError_t run() {
    return inputs_of(back_) == Inputs::usual ? run<by_channel, Inputs::usual>()
                                             : run<by_channel, Inputs::any>();
  }
  template <bool by_channel, Inputs inputs>
  cudaError_t run() {
    const std::int64_t chunks = memory_.places * call_.HV, heads = call_.N * call_.HV, states = 2 * heads;
    launch<clear<kBlockThreads>>((memory_.counters + kBlockThreads - 1) / kBlockThreads, kBlockThreads,
                                 reinterpret_cast<std::uint32_t*>(memory_.largest), memory_.counters);
    if constexpr (by_channel)
      launch<prepare<inputs>, sizeof(PrepareMemory)>(states + chunks, kBlockThreads, back_, memory_);
    else
      launch<token_prepare<inputs>, sizeof(TokenPrepareMemory)>(states + chunks, kBlockThreads, back_,
                                                                memory_);
    const CarryBlocks blocks(call_);
    for (const bool second : {false, true})
      if constexpr (by_channel)
        launch_carry<ChannelStage>(blocks, second);
      else
        launch_carry<TokenStage>(blocks, second);
    if constexpr (by_channel)
      launch<gradients<inputs>, sizeof(GradientMemory)>(chunks, kGradientThreads, back_, memory_);
    else
      launch<token_gradients<inputs>, sizeof(TokenGradientMemory)>(chunks / heads_of_block(), kBlockThreads,
                                                                   back_, memory_, heads_of_block());
    if (back_.dA_log.data || back_.ddt_bias.data)
      launch<add_parts<kHead>>(call_.HV, kSumThreads, back_, memory_.chunks->factors[0],
                               sizeof(ChunkMemory) / sizeof(float), nullptr, memory_.places, true, true);
    return error_;
  }

  /// How many heads of those that share keys a block of token_gradients has: all of them, unless
  /// multiprocessors would be idle meanwhile.
  int heads_of_block() const {
    constexpr double kAlone =
        1.3;  // times as long as a head beside others: it counts, and fetches nothing ahead
    const auto rounds = [&](int heads) {
      const std::int64_t at_once = 2 * std::int64_t{multiprocessors_};
      return static_cast<double>((memory_.places * call_.HV / heads + at_once - 1) / at_once);
    };
    return rounds(call_.group) * call_.group <= rounds(1) * kAlone ? call_.group : 1;
  }

  template <template <Direction> class Stage>
  void launch_carry(const CarryBlocks& blocks, bool second) {
    launch<carry<Stage>, sizeof(CarryMemory<Stage<Direction::back>>)>(
        second ? blocks.second() : blocks.first(), kCarryThreads, back_, memory_, blocks, second);
  }
  template <auto kernel, int shared_bytes = 0, class... Arguments>
  void launch(std::int64_t blocks, int threads, const Arguments&... arguments) {
    if (error_ == cudaSuccess)
      error_ = launch_blocks<kernel, shared_bytes>(blocks, threads, stream_, arguments...);
  }

  const BackwardCall& back_;
  const RecurrenceCall& call_;
  BackwardMemory memory_;
  int multiprocessors_;
  cudaStream_t stream_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

std::size_t workspace_bytes(const BackwardCall& back) {
  return index_workspace(back.call) + BackwardMemory(back.call, nullptr).bytes;
}

cudaError_t launch(const BackwardCall& given, void* workspace, int multiprocessors, cudaStream_t stream) {
  BackwardCall back = given;
  if (const cudaError_t error = place_host_indices(back.call, workspace, stream); error != cudaSuccess)
    return error;
  return Launches(back, static_cast<char*>(workspace) + index_workspace(given.call), multiprocessors, stream)
      .run();
}

}  // namespace fla::cuda_backward
