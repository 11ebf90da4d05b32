#include "fla/core/cuda_memory.h"

#include <atomic>
#include <cstdint>
#include <limits>

#include "fla/core/cuda_error.h"
#include "fla/core/stream_state.h"

namespace fla::cuda {
namespace {

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

/// Freed memory would go back to the system at the next synchronisation, and the next call ask for it again.
/// A threshold that the program has set stays.
void keep_freed_memory(int device) {
  static std::atomic<std::uint64_t> done{0};  // a bit a device
  const std::uint64_t bit = std::uint64_t{1} << (device % 64);
  if (device < 64 && (done.load(std::memory_order_relaxed) & bit) != 0) return;
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device), "asking for a device's memory pool",
             BackendError::Wrote::nothing);
  std::uint64_t threshold = 0;
  check_cuda(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
             "asking for a memory pool's release threshold", BackendError::Wrote::nothing);
  if (threshold == 0) {
    threshold = std::numeric_limits<std::uint64_t>::max();
    check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
               "setting a memory pool's release threshold", BackendError::Wrote::nothing);
  }
  done.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace

void* allocate(std::size_t bytes, Device device, Stream stream) {
  const CurrentDevice current(device.index);
  keep_freed_memory(device.index);
  void* memory = nullptr;
  const cudaError_t error = cudaMallocAsync(&memory, bytes, of(stream));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return nullptr;
  }
  check_cuda(error, "allocating device memory", BackendError::Wrote::nothing);
  return memory;
}

void release(void* memory, Device device, Stream stream) noexcept {
  try {
    const CurrentDevice current(device.index);
    if (cudaFreeAsync(memory, of(stream)) != cudaSuccess) (void)cudaGetLastError();
  } catch (const Error&) {  // no context any more: what was in it is freed
  }
}

void fill_zeros(void* memory, std::size_t bytes, Device device, Stream stream) {
  const CurrentDevice current(device.index);
  check_cuda(cudaMemsetAsync(memory, 0, bytes, of(stream)), "filling device memory with zeros");
}

void fill_zeros(void* memory, std::size_t bytes, std::size_t rows, std::size_t pitch, Device device,
                Stream stream) {
  const CurrentDevice current(device.index);
  check_cuda(cudaMemset2DAsync(memory, pitch, 0, bytes, rows, of(stream)),
             "filling rows of device memory with zeros");
}

void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes,
          Stream stream) {
  const CurrentDevice current(to_device.is_cpu() ? from_device.index : to_device.index);
  if (to_device.is_cpu() || from_device.is_cpu()) {
    const cudaMemcpyKind kind = to_device.is_cpu() ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, of(stream)), "copying to or from a device");
    check_cuda(cudaStreamSynchronize(of(stream)), "waiting for a copy");
  } else if (to_device == from_device) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, of(stream)), "copying on a device");
  } else {
    check_cuda(cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, bytes, of(stream)),
               "copying between devices");
  }
}

void synchronize(Device device, Stream stream) {
  const CurrentDevice current(device.index);
  check_cuda(cudaStreamSynchronize(of(stream)), "waiting for a stream");
}

}  // namespace fla::cuda

namespace fla {

bool is_capturing(Device device, Stream stream) {
  if (device.is_cpu()) return false;
  try {
    const CurrentDevice current(device.index);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream.handle), &status);
    if (error == cudaSuccess) return status != cudaStreamCaptureStatusNone;
    (void)cudaGetLastError();
    return error == cudaErrorStreamCaptureImplicit;  // the legacy stream, which waits for one that is
  } catch (const Error&) {
    return false;
  }
}

}  // namespace fla
