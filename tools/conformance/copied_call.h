#pragma once

#include <cstring>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/device_memory.h"
#include "tools/conformance/device_call.h"

namespace fla::conformance {

/// A call whose outputs are read as well: its tensors on another device, and what was written brought back
/// into the caller's memory, which is row-major.
template <class Args>
class CopiedCall {
 public:
  CopiedCall(const Args& host, Device device, DeviceIndices indices = DeviceIndices::on_device)
      : host_(host), args_(host), device_(device) {
    if (device.is_cpu()) return;
    for (const Argument& argument : Args::arguments()) {
      if (!argument.is_tensor() || !argument.given(&host_)) continue;
      if (argument.kind == ArgumentKind::index && indices == DeviceIndices::on_host) continue;
      TensorView& tensor = argument.tensor(static_cast<void*>(&args_));
      memory_.push_back(copy_to(tensor, device));
      tensor = memory_.back();
    }
    synchronize(device);
  }

  Args& args() { return args_; }

  void bring_back() const {
    if (device_.is_cpu()) return;
    synchronize(device_);
    for (const Argument& argument : Args::arguments()) {
      if (argument.kind != ArgumentKind::output || !argument.given(&host_)) continue;
      const Tensor now = copy_to(argument.tensor(&args_), {});
      const TensorView& to = argument.tensor(&host_);
      std::memcpy(to.data(), now.data(), static_cast<std::size_t>(to.numel()) * size_of(to.dtype()));
    }
  }

 private:
  Args host_, args_;
  Device device_;
  std::vector<Tensor> memory_;
};

}  // namespace fla::conformance
