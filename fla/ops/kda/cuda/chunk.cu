#include "fla/ops/kda/cuda/chunk.cuh"
#include "fla/ops/kda/cuda/chunk_launch.h"
#include "fla/ops/kda/cuda/host_indices.cuh"
#include "fla/ops/kda/cuda/padded_keys.h"

namespace fla::cuda {

std::size_t chunk_workspace(const RecurrenceCall& call) {
  const std::size_t operators =
      with_padded_keys(call.K, []<int KP>(Constant<KP>) { return sizeof(ChunkOperators<KP>); });
  return index_workspace(call) + static_cast<std::size_t>(chunk_places(call) * call.HV) * operators;
}

cudaError_t launch_chunk(const RecurrenceCall& given, void* workspace, cudaStream_t stream) {
  RecurrenceCall call = given;
  void* const operators = static_cast<char*>(workspace) + index_workspace(call);
  if (const cudaError_t error = place_host_indices(call, workspace, stream); error != cudaSuccess)
    return error;
  return with_padded_keys(
      call.K, [&]<int KP>(Constant<KP>) { return launch_chunk_kernels<KP>(call, operators, stream); });
}

}  // namespace fla::cuda
