#pragma once

#include <cstddef>
#include <memory>

#include "fla/core/device.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"

/// Memory on devices, and what is done with it in the order of a stream. A null stream is the device's legacy
/// default stream. Functions throw InvalidArgument for a device that is not there, std::bad_alloc when there
/// is not enough memory, DeviceLost after a sticky CUDA error. Thread-safe.
namespace fla {

/// Where results and workspaces that the caller did not give come from. An engine with a memory pool of its
/// own puts itself here. `release` may be called on any thread; work on `stream` may still be using the
/// memory then.
struct DeviceAllocator {
  void* (*allocate)(void* context, std::size_t bytes, Device device,
                    Stream stream) = nullptr;  ///< null: none left
  void (*release)(void* context, void* memory, std::size_t bytes, Device device, Stream stream) = nullptr;
  void* context = nullptr;
};

/// Replaces the allocator for memory that is asked for from now on; what was allocated goes back where it
/// came from. A default-constructed one brings back the library's own, which is the driver's stream-ordered
/// pool (cudaMallocAsync). Never called for the CPU.
FLA_API void set_device_allocator(const DeviceAllocator& allocator);

/// At least 256-byte aligned, uninitialised; may be used in the order of `stream` from now on. Goes back, in
/// the order of `stream` (which must still exist then), with the last copy of the pointer. For the CPU: plain
/// memory.
FLA_API std::shared_ptr<void> allocate_on(Device device, std::size_t bytes, Stream stream);

/// Uninitialised, as Tensor::empty, usable in the order of `stream`.
FLA_API Tensor empty_on(std::span<const std::int64_t> shape, DType dtype, Device device, Stream stream);

/// Copies elements between two tensors of one shape and dtype, each contiguous, on any devices, in the order
/// of `stream` (ignored between two on the CPU). Returns, if one of them is on the CPU, when the copy is
/// done. Throws InvalidArgument otherwise.
FLA_API void copy(const TensorView& from, const TensorView& to, Stream stream = {});

/// A contiguous copy of any tensor on the CPU or any contiguous tensor of a GPU, there.
FLA_API Tensor copy_to(const TensorView& tensor, Device device, Stream stream = {});

/// Makes every element zero, whatever the strides are, in the order of `stream`. Elements must have places of
/// their own.
FLA_API void clear(const TensorView& tensor, Stream stream = {});

/// Returns when everything put on the stream so far is done. Nothing to do for the CPU.
FLA_API void synchronize(Device device, Stream stream = {});

}  // namespace fla
