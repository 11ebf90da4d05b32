#include "fla/core/cuda_devices.h"
#include "fla/core/cuda_memory.h"
#include "fla/core/errors.h"
#include "fla/core/stream_state.h"

/// What a build without CUDA has in the place of cuda_devices.cpp and cuda_memory.cpp.
namespace fla {

std::span<const CudaDevice> cuda_devices() { return {}; }
const CudaDevice* find_cuda_device(Device) { return nullptr; }
std::string_view why_no_cuda_device() { return "this build has no CUDA kernels"; }
std::string_view cuda_driver_version() { return {}; }
bool is_capturing(Device, Stream) { return false; }

namespace cuda {
namespace {

[[noreturn]] void refuse(Device device) {
  throw InvalidArgument("device",
                        "expected cpu, got " + to_string(device) + ": " + std::string(why_no_cuda_device()));
}

}  // namespace

void* allocate(std::size_t, Device device, Stream) { refuse(device); }
void release(void*, Device, Stream) noexcept {}
void fill_zeros(void*, std::size_t, Device device, Stream) { refuse(device); }
void fill_zeros(void*, std::size_t, std::size_t, std::size_t, Device device, Stream) { refuse(device); }
void copy(void*, Device to, const void*, Device from, std::size_t, Stream) {
  refuse(to.is_cpu() ? from : to);
}
void synchronize(Device device, Stream) { refuse(device); }

}  // namespace cuda
}  // namespace fla
