#include "tools/fla/devices.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "fla/core/cuda_devices.h"
#include "fla/core/device_memory.h"
#include "fla/core/errors.h"
#include "tools/fla/machine.h"
#include "tools/fla/settings.h"
#include "tools/fla/text_table.h"

namespace fla::command {
namespace {

std::string facts_of(const CudaDevice& device) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), ", sm_%d, %d multiprocessors, %.0f GiB", device.architecture(),
                device.multiprocessors, static_cast<double>(device.memory) / 0x1p30);
  return device.name + text.data();
}

/// The driver's management library is there wherever the driver is, containers included.
std::string driver_version_by_nvml() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "";
  const auto init = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  const auto version =
      reinterpret_cast<int (*)(char*, unsigned)>(::dlsym(library, "nvmlSystemGetDriverVersion"));
  const auto shutdown = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlShutdown"));
  std::array<char, 96> text{};
  if (init != nullptr && version != nullptr && shutdown != nullptr && init() == 0) {
    if (version(text.data(), static_cast<unsigned>(text.size() - 1)) != 0) text[0] = '\0';
    shutdown();
  }
  ::dlclose(library);
  return text.data();
}

}  // namespace

std::string absence_of(Device device) {
  if (device.is_cpu() || find_cuda_device(device) != nullptr) return "";
  std::string reason(why_no_cuda_device());
  if (reason.empty()) {
    const std::size_t count = cuda_devices().size();
    reason = "this machine has " + std::to_string(count) + " CUDA device" + (count == 1 ? "" : "s");
  }
  return to_string(device) + " is not there: " + reason;
}

Device parse_present_device(const std::string& name) {
  const Device device = parse_device(name);
  if (const std::string absence = absence_of(device); !absence.empty())
    throw InvalidArgument("device", absence);
  return device;
}

std::vector<cases::NamedTensor> on_host(std::vector<cases::NamedTensor> tensors) {
  for (cases::NamedTensor& each : tensors) {
    if (!each.tensor.device().is_cpu()) each.tensor = copy_to(each.tensor, Device{});
  }
  return tensors;
}

std::vector<ListedDevice> listed_devices() {
  const auto machine = machine_facts();
  std::vector<ListedDevice> list{
      {.name = "cpu",
       .facts = machine.value("cpu", "") + ", " + std::to_string(machine.value("cores", 0)) + " cores"}};
  std::int16_t index = 0;
  for (const CudaDevice& device : cuda_devices()) {
    list.push_back({.name = to_string(Device{DeviceType::cuda, index++}), .facts = facts_of(device)});
  }
  if (index == 0)
    list.push_back({.name = "cuda", .available = false, .facts = std::string(why_no_cuda_device())});
  return list;
}

nlohmann::ordered_json devices_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ListedDevice& device : listed_devices()) {
    list.push_back({{"name", device.name},
                    {"available", device.available},
                    {"facts", device.available ? device.facts : ""},
                    {"reason", device.available ? "" : device.facts}});
  }
  return list;
}

std::string devices_text() {
  std::string text = "devices\n";
  TextTable table({"  device", "state"});
  for (const ListedDevice& device : listed_devices())
    table.add({"  " + device.name, device.available ? device.facts : "unavailable: " + device.facts});
  return text + table.text();
}

std::string driver_version() {
  if (const std::string version = driver_version_by_nvml(); !version.empty()) return version;
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  file >> version;
  return version;
}

}  // namespace fla::command
