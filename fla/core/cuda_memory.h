#pragma once

#include <cstddef>

#include "fla/core/device.h"

/// What device_memory.h is made of on a GPU. The devices are there; null streams are legacy default streams.
/// Each throws as check_cuda() does.
namespace fla::cuda {

/// From the device's own pool, in the order of `stream`; null when there is not enough.
void* allocate(std::size_t bytes, Device device, Stream stream);

/// Gives it back in the order of `stream`. Does nothing when the process is so far gone that the memory is,
/// too.
void release(void* memory, Device device, Stream stream) noexcept;

void fill_zeros(void* memory, std::size_t bytes, Device device, Stream stream);

/// `rows` of `bytes` each, `pitch` bytes apart, which is at least `bytes`.
void fill_zeros(void* memory, std::size_t bytes, std::size_t rows, std::size_t pitch, Device device,
                Stream stream);

/// One of them, or both, on a GPU. Returns, if one is on the CPU, when the copy is done.
void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, Stream stream);

void synchronize(Device device, Stream stream);

}  // namespace fla::cuda
