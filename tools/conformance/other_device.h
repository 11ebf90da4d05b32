#pragma once

#include <optional>

#include "fla/core/arguments.h"
#include "fla/core/cuda_devices.h"
#include "fla/core/device.h"
#include "fla/core/tensor.h"

namespace fla::conformance {

/// A device of the other kind than this one, CPU or GPU; nothing where there is no GPU.
inline std::optional<Device> other_device(Device device) {
  const Device other{device.is_cpu() ? DeviceType::cuda : DeviceType::cpu};
  if (!other.is_cpu() && find_cuda_device(other) == nullptr) return std::nullopt;
  return other;
}

/// The call as if its tensors were there, to ask verifiers about, which read none of them: it takes no memory
/// there, and no CUDA in a child.
template <class Args>
Args as_if_on(Device device, Args args) {
  for (const Argument& argument : Args::arguments()) {
    if (!argument.is_tensor() || !argument.tensor(&args).defined()) continue;
    TensorView& tensor = argument.tensor(static_cast<void*>(&args));
    tensor = TensorView(tensor.data(), tensor.dtype(), tensor.shape(), tensor.strides(), device);
  }
  return args;
}

}  // namespace fla::conformance
