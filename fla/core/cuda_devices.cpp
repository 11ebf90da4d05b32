#include "fla/core/cuda_devices.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "fla/core/fork.h"

namespace fla {
namespace {

struct Found {
  std::vector<CudaDevice> devices;
  std::string why_none, driver_version;
};

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string why_none(cudaError_t error, int driver_version) {
  if (driver_version == 0) return "no CUDA driver was found";
  if (error == cudaErrorInsufficientDriver) {
    return "the CUDA driver knows CUDA " + version_text(driver_version) + ", this build needs " +
           version_text(CUDART_VERSION);
  }
  if (error == cudaSuccess || error == cudaErrorNoDevice) return "the CUDA driver knows no device";
  return std::string("the CUDA driver says: ") + cudaGetErrorString(error);
}

Found look() {
  Found found;
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) version = 0;
  if (version != 0) found.driver_version = version_text(version);
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  for (int index = 0; error == cudaSuccess && index < count; ++index) {
    cudaDeviceProp properties{};
    error = cudaGetDeviceProperties(&properties, index);
    if (error != cudaSuccess) break;
    found.devices.push_back({.name = properties.name,
                             .major = properties.major,
                             .minor = properties.minor,
                             .multiprocessors = properties.multiProcessorCount,
                             .memory = properties.totalGlobalMem,
                             .shared_memory = properties.sharedMemPerBlockOptin});
  }
  if (error != cudaSuccess) found.devices.clear();
  if (found.devices.empty()) found.why_none = why_none(error, version);
  (void)cudaGetLastError();  // ours, and not to be found by somebody else's call
  return found;
}

std::mutex looking;
[[maybe_unused]] const bool devices_guarded = (guard_against_fork(CoreLock::cuda_devices, looking), true);

/// Not a static of a function: a fork while another thread is making it would leave the child without it.
const Found& found() {
  static std::atomic<const Found*> kept{nullptr};
  const Found* now = kept.load(std::memory_order_acquire);
  if (now != nullptr) return *now;
  const std::lock_guard lock(looking);
  now = kept.load(std::memory_order_relaxed);
  if (now == nullptr) kept.store(now = new Found(look()), std::memory_order_release);
  return *now;
}

}  // namespace

std::span<const CudaDevice> cuda_devices() { return found().devices; }

const CudaDevice* find_cuda_device(Device device) {
  const std::span<const CudaDevice> devices = cuda_devices();
  if (device.type != DeviceType::cuda || device.index < 0) return nullptr;
  const auto index = static_cast<std::size_t>(device.index);
  return index < devices.size() ? &devices[index] : nullptr;
}

std::string_view why_no_cuda_device() { return found().why_none; }
std::string_view cuda_driver_version() { return found().driver_version; }

}  // namespace fla
