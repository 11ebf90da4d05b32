#include "fla/ops/common/original_device.h"

#include <cstdint>
#include <string>

#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"

namespace fla::common {

void check_cuda_device(const char* argument, Device device) {
  constexpr int kOldestArchitecture = 80;
  const auto devices = cuda_devices();
  if (devices.empty()) {
    throw InvalidArgument(
        argument, "expected device cpu, got " + to_string(device) + ": " + std::string(why_no_cuda_device()));
  }
  const CudaDevice* found = find_cuda_device(device);
  if (found == nullptr) {
    const std::string last =
        to_string(Device{DeviceType::cuda, static_cast<std::int16_t>(devices.size() - 1)});
    throw InvalidArgument(argument, "expected device " +
                                        (devices.size() == 1 ? std::string("cuda:0") : "cuda:0 to " + last) +
                                        ", got " + to_string(device));
  }
  if (found->architecture() < kOldestArchitecture) {
    throw InvalidArgument(argument, "expected a device of compute capability 8.0 or above, got " +
                                        to_string(device) + ", " + found->name + ", with " +
                                        std::to_string(found->major) + "." + std::to_string(found->minor));
  }
}

}  // namespace fla::common
