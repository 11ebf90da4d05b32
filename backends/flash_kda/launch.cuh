#pragma once

#include <cuda_runtime.h>

#include <atomic>

#include "backends/flash_kda/params.h"

/// Putting kernels on a stream.
namespace fla::flash_kda {

struct Launch {
  int grid = 0;
  cudaStream_t stream = nullptr;
  bool early = false;     ///< brought onto the device while the kernel before it runs
  bool resident = false;  ///< all CTAs at once, or none: they wait for each other
};

/// Defined in launch_forward.cuh. Each type of q, kind of gate and rule has a source file of its own,
/// for the compile time.
template <Half16 type, GateKind kind, Rule rule>
cudaError_t launch_forward(const Launch& launch, const Params& params);
template <Half16 type, Rule rule>
cudaError_t launch_part(const Launch& launch, const Params& params);

/// `prepared`: devices on which the kernel has been given its shared memory. All kernels ask for the same
/// split of the SM's memory, or it is reconfigured between them.
template <class Kernel, class Argument>
cudaError_t launch_kernel(Kernel kernel, std::atomic<std::uint64_t>& prepared, std::uint32_t threads,
                          std::uint32_t shared_bytes, const Launch& launch, const Argument& argument) {
  if (launch.grid == 0) return cudaSuccess;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  const std::uint64_t bit = std::uint64_t(1) << (device & 63);
  if (!(prepared.load(std::memory_order_acquire) & bit)) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
    if (error != cudaSuccess) return error;
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared);
    if (error != cudaSuccess) return error;
    prepared.fetch_or(bit, std::memory_order_release);
  }
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (launch.early) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (launch.resident) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(launch.grid));
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = launch.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, argument);
}

}  // namespace fla::flash_kda
