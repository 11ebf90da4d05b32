#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>

#include "fla/core/device_memory.h"

namespace fla_test {

/// Is the library's device allocator while it lives, and counts what it is asked for.
class CountingAllocator {
 public:
  CountingAllocator() { fla::set_device_allocator({&allocate, &release, this}); }
  ~CountingAllocator() { fla::set_device_allocator({}); }
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  int allocations() const { return allocations_; }
  int releases() const { return releases_; }
  std::size_t bytes_held() const { return bytes_held_; }
  /// Whether everybody asked for memory in the order of this stream.
  bool only_for(fla::Stream stream) const { return only_stream_ == stream.handle && !other_streams_; }

 private:
  static void* allocate(void* context, std::size_t bytes, fla::Device, fla::Stream stream) {
    auto& self = *static_cast<CountingAllocator*>(context);
    if (self.allocations_++ == 0) self.only_stream_ = stream.handle;
    if (self.only_stream_ != stream.handle) self.other_streams_ = true;
    self.bytes_held_ += bytes;
    void* memory = nullptr;
    const cudaError_t error = cudaMallocAsync(&memory, bytes, static_cast<cudaStream_t>(stream.handle));
    return error == cudaSuccess ? memory : nullptr;
  }
  static void release(void* context, void* memory, std::size_t bytes, fla::Device, fla::Stream stream) {
    auto& self = *static_cast<CountingAllocator*>(context);
    ++self.releases_;
    self.bytes_held_ -= bytes;
    (void)cudaFreeAsync(memory, static_cast<cudaStream_t>(stream.handle));
  }

  std::atomic<int> allocations_{0}, releases_{0};
  std::atomic<std::size_t> bytes_held_{0};
  std::atomic<void*> only_stream_{nullptr};
  std::atomic<bool> other_streams_{false};
};

}  // namespace fla_test
