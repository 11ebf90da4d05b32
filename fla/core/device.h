#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fla/core/export.h"

namespace fla {

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int16_t index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {DeviceType::cuda, static_cast<std::int16_t>(index)}; }

  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  friend constexpr bool operator==(const Device&, const Device&) = default;
};

/// "cpu" or "cuda:0".
FLA_API std::string to_string(Device device);

/// Reads "cpu", "cuda" (device 0) or "cuda:N".
FLA_API std::optional<Device> device_from_name(std::string_view name);

/// The queue that work on a device is put in; a CUDA stream for CUDA tensors. CPU kernels run on the caller's
/// thread and ignore it.
struct Stream {
  void* handle = nullptr;
};

}  // namespace fla
