#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace fla::cuda {

/// Launches with the error of this launch alone: what <<<>>> leaves behind for cudaGetLastError may be
/// anybody's.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes,
                   cudaStream_t stream, const Arguments&... arguments) {
  return [&](Parameters... values) {  // exactly the types that the kernel takes
    void* pointers[] = {&values...};
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(static_cast<unsigned>(threads)),
                            pointers, static_cast<std::size_t>(shared_bytes), stream);
  }(arguments...);
}

/// More dynamic shared memory than every kernel has by itself is asked for once a kernel and device.
template <auto kernel>
cudaError_t allow_shared_memory(int bytes) {
  static std::atomic<std::uint64_t> allowed{0};  // a bit a device
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  const std::uint64_t bit = device < 64 ? std::uint64_t{1} << device : 0;
  if (allowed.load(std::memory_order_acquire) & bit) return cudaSuccess;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  // Without this the driver leaves room for one block on a multiprocessor where there could be two.
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared);
  if (error != cudaSuccess) return error;
  allowed.fetch_or(bit, std::memory_order_release);
  return cudaSuccess;
}

/// An empty grid is no error: there is nothing to do.
template <auto kernel, int shared_bytes, class... Arguments>
cudaError_t launch_blocks(std::int64_t blocks, int threads, cudaStream_t stream,
                          const Arguments&... arguments) {
  if (blocks == 0) return cudaSuccess;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  if constexpr (shared_bytes > 48 * 1024) {
    if (const cudaError_t error = allow_shared_memory<kernel>(shared_bytes); error != cudaSuccess)
      return error;
  }
  return launch(kernel, dim3(static_cast<unsigned>(blocks)), threads, shared_bytes, stream, arguments...);
}

}  // namespace fla::cuda
