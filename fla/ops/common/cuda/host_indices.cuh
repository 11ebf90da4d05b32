#pragma once

#include <algorithm>
#include <utility>

#include "fla/ops/common/cuda/index_workspace.h"
#include "fla/ops/common/cuda/launch.cuh"
#include "fla/ops/common/kernel_views.h"

/// cu_seqlens and state indices in host memory travel to the workspace as arguments of a kernel, so that the
/// caller's memory is free when the launch returns, nothing waits, and a captured graph keeps the values of
/// its capture.
namespace fla::cuda {

/// Bytes of the workspace, from its beginning, that they take.
template <class Call>
std::size_t index_workspace(const Call& call) {
  return index_workspace(call.N, call.cu_seqlens.on_host, call.read_slots.on_host, call.write_slots.on_host);
}

inline constexpr int kIndicesAtOnce = 256;

struct IndexBlock {
  std::int64_t at[kIndicesAtOnce];
};

template <int threads>
__global__ void write_indices(const __grid_constant__ IndexBlock block, std::int64_t* target, int count) {
  if (const int i = threadIdx.x; i < count) target[i] = block.at[i];
}

/// Writes entry(i), i below `count`, to `target` and makes it point behind them.
template <class Entry>
cudaError_t place_entries(std::int64_t count, Entry&& entry, std::int64_t*& target, cudaStream_t stream) {
  for (std::int64_t first = 0; first < count; first += kIndicesAtOnce) {
    IndexBlock block;
    const int now = static_cast<int>(std::min<std::int64_t>(kIndicesAtOnce, count - first));
    for (int i = 0; i < now; ++i) block.at[i] = entry(first + i);
    const cudaError_t error =
        launch(write_indices<kIndicesAtOnce>, dim3(1), kIndicesAtOnce, 0, stream, block, target + first, now);
    if (error != cudaSuccess) return error;
  }
  target += count;
  return cudaSuccess;
}

/// Indices that lie on the host go to `target`, which then is behind them.
inline cudaError_t place(common::Indices& indices, std::int64_t count, std::int64_t*& target,
                         cudaStream_t stream) {
  if (!indices.on_host) return cudaSuccess;
  const common::Indices given = std::exchange(indices, {.data = target, .wide = true});
  return place_entries(
      count, [&](std::int64_t i) { return given[i]; }, target, stream);
}

inline cudaError_t place(common::IndexRows& rows, std::int64_t N, std::int64_t columns, std::int64_t*& target,
                         cudaStream_t stream) {
  if (!rows.first.on_host) return cudaSuccess;
  const common::IndexRows given =
      std::exchange(rows, {.first = {.data = target, .wide = true}, .row = columns});
  return place_entries(
      N * columns, [&](std::int64_t i) { return given[i / columns][i % columns]; }, target, stream);
}

/// Afterwards all of the call's indices are on the device.
template <class Call>
cudaError_t place_host_indices(Call& call, void* workspace, cudaStream_t stream) {
  auto* target = static_cast<std::int64_t*>(workspace);
  if (const cudaError_t error = place(call.cu_seqlens, call.N + 1, target, stream); error != cudaSuccess)
    return error;
  if (const cudaError_t error = place(call.read_slots, call.N, target, stream); error != cudaSuccess)
    return error;
  return place(call.write_slots, call.N, target, stream);
}

}  // namespace fla::cuda
