#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "fla/core/device.h"
#include "fla/core/export.h"

/// The GPUs that this process can use. Asking makes no CUDA context; the answer is found once and kept. A
/// build without CUDA, a machine without a driver and a driver without a device all say that there is none,
/// and why.
namespace fla {

struct CudaDevice {
  std::string name;          ///< "NVIDIA H200"
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::size_t memory = 0;         ///< bytes
  std::size_t shared_memory = 0;  ///< bytes that one block may ask for

  /// 90 for compute capability 9.0.
  int architecture() const { return 10 * major + minor; }
};

/// cuda:0, cuda:1, … in this order; empty when there is none.
FLA_API std::span<const CudaDevice> cuda_devices();

/// The device's facts; null when there is no such device, or it is the CPU. For verifiers: cheap, never
/// throws.
FLA_API const CudaDevice* find_cuda_device(Device device);

/// Why cuda_devices() is empty, "this build has no CUDA kernels" or the driver's words; empty when it is not.
FLA_API std::string_view why_no_cuda_device();

/// "13.0", the newest CUDA that the driver knows; empty without a driver.
FLA_API std::string_view cuda_driver_version();

}  // namespace fla
