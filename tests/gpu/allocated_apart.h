#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "fla/core/device_memory.h"

namespace fla_test {

/// Tests whose allocations are each made by themselves, for compute-sanitizer: what is written beside one, or
/// read before it was written, is found. `filled` ones are full of NaN instead, and initcheck takes them for
/// written: what reads too early then shows in the results.
template <class Base, bool filled = false>
class AllocatedApart : public Base {
 protected:
  void SetUp() override {
    Base::SetUp();
    if (!Base::IsSkipped()) fla::set_device_allocator({&allocate, &release, nullptr});
  }
  void TearDown() override { fla::set_device_allocator({}); }

 private:
  static void* allocate(void*, std::size_t bytes, fla::Device, fla::Stream stream) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes) != cudaSuccess) return nullptr;
    if constexpr (filled)
      (void)cudaMemsetAsync(memory, 0xff, bytes, static_cast<cudaStream_t>(stream.handle));
    return memory;
  }
  static void release(void*, void* memory, std::size_t, fla::Device, fla::Stream) { (void)cudaFree(memory); }
};

}  // namespace fla_test
