#include "tools/fla/counted_allocations.h"

#include <cuda_runtime_api.h>

#include "fla/core/cuda_error.h"

namespace fla::command {

CountedAllocations::CountedAllocations() {
  set_device_allocator({.allocate = allocate, .release = release, .context = this});
}

CountedAllocations::~CountedAllocations() { set_device_allocator({}); }

void* CountedAllocations::allocate(void* context, std::size_t bytes, Device device, Stream stream) {
  const CurrentDevice current(device.index);
  void* memory = nullptr;
  if (cudaMallocAsync(&memory, bytes, static_cast<cudaStream_t>(stream.handle)) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  static_cast<CountedAllocations*>(context)->bytes_ += bytes;
  return memory;
}

void CountedAllocations::release(void*, void* memory, std::size_t, Device, Stream stream) {
  (void)cudaFreeAsync(memory, static_cast<cudaStream_t>(stream.handle));
}

}  // namespace fla::command
