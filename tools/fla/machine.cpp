#include "tools/fla/machine.h"

#include <sys/utsname.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "fla/core/cuda_devices.h"
#include "tools/fla/devices.h"

namespace fla::command {
namespace {

/// The value of the first "key : value" line of /proc/cpuinfo.
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

/// ARM's kernels give numbers where others give a name.
std::string arm_core(const std::string& part) {
  struct Core {
    int part;
    const char* name;
  };
  constexpr std::array kCores{Core{0xd08, "Cortex-A72"},  Core{0xd0b, "Cortex-A76"},
                              Core{0xd0c, "Neoverse-N1"}, Core{0xd40, "Neoverse-V1"},
                              Core{0xd49, "Neoverse-N2"}, Core{0xd4f, "Neoverse-V2"},
                              Core{0xd84, "Neoverse-V3"}, Core{0xd8e, "Neoverse-N3"}};
  const long number = std::strtol(part.c_str(), nullptr, 16);
  for (const Core& core : kCores) {
    if (core.part == number) return core.name;
  }
  return "ARM part " + part;
}

std::string cpu_name() {
  if (const std::string name = cpuinfo("model name"); !name.empty()) return name;
  if (const std::string part = cpuinfo("CPU part"); !part.empty()) return arm_core(part);
  return "unknown";
}

}  // namespace

nlohmann::ordered_json machine_facts() {
  utsname system{};
  ::uname(&system);
#if defined(__clang__)
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "gcc " __VERSION__;
#endif
  return {{"cpu", cpu_name()},
          {"cores", std::thread::hardware_concurrency()},
          {"architecture", system.machine},
          {"system", std::string(system.sysname) + " " + system.release},
          {"compiler", compiler},
          {"version", FLA_VERSION}};
}

nlohmann::ordered_json machine_facts(Device device) {
  nlohmann::ordered_json facts = machine_facts();
  const CudaDevice* const gpu = find_cuda_device(device);
  if (gpu == nullptr) return facts;
  facts["gpu"] = gpu->name;
  facts["multiprocessors"] = gpu->multiprocessors;
  facts["driver"] = driver_version();
  facts["cuda"] = cuda_driver_version();
  facts["cuda_toolkit"] = FLA_CUDA_TOOLKIT;
  return facts;
}

}  // namespace fla::command
