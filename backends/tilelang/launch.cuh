#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace fla::tilelang {

/// Devices, as bits, on which a kernel has been given its shared memory.
using Prepared = std::atomic<std::uint64_t>;

/// Puts a generated kernel on a stream of the current device. No block: nothing is launched.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), Prepared& prepared, dim3 grid, dim3 block, int shared_bytes,
                   cudaStream_t stream, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  const std::uint64_t bit = std::uint64_t{1} << (device & 63);
  if (!(prepared.load(std::memory_order_acquire) & bit)) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (error != cudaSuccess) return error;
    prepared.fetch_or(bit, std::memory_order_release);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace fla::tilelang
