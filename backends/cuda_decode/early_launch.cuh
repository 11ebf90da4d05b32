#pragma once

#include <cuda_runtime.h>

#include "fla/ops/common/cuda/launch.cuh"

/// Programmatic dependent launch: a kernel is brought onto the device while the one before it in the stream
/// still runs, and waits there. Saves about half a microsecond between two kernels, in graphs too. Devices
/// before sm_90 launch as ever.
namespace fla::cuda {

/// Before the first access to memory: what the kernel before wrote is there afterwards. Lets the next one
/// come, too.
__device__ inline void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// `early`: the device has it (sm_90 and up). In a graph only: launched one by one, the host's share of it
/// costs more than it saves.
template <class... Parameters, class... Arguments>
cudaError_t launch_early(void (*kernel)(Parameters...), dim3 grid, int threads, int shared_bytes, bool early,
                         cudaStream_t stream, const Arguments&... arguments) {
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  if (early) {
    if (const cudaError_t error = cudaStreamIsCapturing(stream, &capturing); error != cudaSuccess)
      return error;
  }
  if (capturing == cudaStreamCaptureStatusNone)
    return launch(kernel, grid, threads, shared_bytes, stream, arguments...);
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

}  // namespace fla::cuda
