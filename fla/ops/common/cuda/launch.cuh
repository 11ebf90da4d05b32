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

/// Programmatic dependent launch: a kernel is brought onto the device while the one before it in the stream
/// still runs, and waits there, which saves about a microsecond between two kernels, in graphs too. Every
/// thread of it calls wait_for_kernel_before(), so that the end of a kernel is that of all before it. Devices
/// before sm_90 launch as ever.
template <class... Parameters, class... Arguments>
cudaError_t launch_early(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes,
                         cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// From here on the next kernel may be brought onto the device, once all blocks of this one are here.
__device__ inline void let_next_kernel_come() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// What the kernel before wrote is there afterwards. Nothing is written before it.
__device__ inline void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
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

/// An empty grid is no error: there is nothing to do. `early`: see launch_early().
template <auto kernel, int shared_bytes, bool early = false, class... Arguments>
cudaError_t launch_blocks(std::int64_t blocks, int threads, cudaStream_t stream,
                          const Arguments&... arguments) {
  if (blocks == 0) return cudaSuccess;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  if constexpr (shared_bytes > 48 * 1024) {
    if (const cudaError_t error = allow_shared_memory<kernel>(shared_bytes); error != cudaSuccess)
      return error;
  }
  const dim3 grid(static_cast<unsigned>(blocks));
  if constexpr (early)
    return launch_early(kernel, grid, threads, shared_bytes, stream, arguments...);
  else
    return launch(kernel, grid, threads, shared_bytes, stream, arguments...);
}

}  // namespace fla::cuda
