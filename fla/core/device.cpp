#include "fla/core/device.h"

#include <charconv>

namespace fla {

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::optional<Device> device_from_name(std::string_view name) {
  if (name == "cpu") return Device{};
  if (name == "cuda") return Device{DeviceType::cuda, 0};
  constexpr std::string_view prefix = "cuda:";
  if (!name.starts_with(prefix)) return std::nullopt;
  Device device{DeviceType::cuda, 0};
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, device.index);
  if (error != std::errc() || stop != end || device.index < 0) return std::nullopt;
  return device;
}

}  // namespace fla
