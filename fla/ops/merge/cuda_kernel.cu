#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/merge/cuda_kernel.h"
#include "fla/ops/merge/merged_state.cuh"

namespace fla::cuda {
namespace {

__global__ void __launch_bounds__(kMergeThreads) merge(const __grid_constant__ MergeCall call) {
  __shared__ MergeMemory memory;
  const int blocks = (call.V + kMergeValues - 1) / kMergeValues;
  const int head = static_cast<int>(blockIdx.x / blocks % call.HV);
  const std::int64_t n = blockIdx.x / blocks / call.HV;
  MergedState merged(memory, call.K, call.V, static_cast<int>(blockIdx.x % blocks));
  merged.load(call.initial_state, n, head);
  for (std::int64_t c = 0; c < call.C; ++c) {
    const float* const R = call.R_at(c, n, head);
    float next[kMergeRowsEach];
    merged.multiply({call.P_at(c, n, head), call.P_row, call.P_column, call.diagonal}, next);
    merged.rows(
        [&](int r, int i) { next[r] += merged.there ? R[i * call.R_key + merged.value * call.R_value] : 0; });
    merged.replace(next);
  }
  const common::States& to = call.final_state;
  merged.rows([&](int, int i) {
    if (!merged.there) return;
    store(to.data, to.dtype, to.offset(n, head) + i * to.key + merged.value * to.value,
          merged.state[i][merged.column]);
  });
}

}  // namespace

std::int64_t merge_blocks(const MergeCall& call) {
  return call.N * call.HV * ((call.V + kMergeValues - 1) / kMergeValues);
}

cudaError_t launch_merge(const MergeCall& call, cudaStream_t stream) {
  return launch_blocks<merge, 0>(merge_blocks(call), kMergeThreads, stream, call);
}

}  // namespace fla::cuda
