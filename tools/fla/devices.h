#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fla/core/device.h"
#include "tools/cases/safetensors.h"

namespace fla::command {

/// Why nothing can run on the device: "cuda:0 is not there: …"; empty when it is.
std::string absence_of(Device device);

/// Reads a device's name and sees that the device is there. Throws InvalidArgument.
Device parse_present_device(const std::string& name);

/// The tensors, those on a GPU copied to the host when what computes them is done. Throws BackendError when
/// it failed there.
std::vector<cases::NamedTensor> on_host(std::vector<cases::NamedTensor> tensors);

/// The CPU and every GPU, or the word "cuda" with the reason why there is none.
struct ListedDevice {
  std::string name;
  bool available = true;
  std::string facts;  ///< what it is, or why it is not there
};
std::vector<ListedDevice> listed_devices();
nlohmann::ordered_json devices_json();
std::string devices_text();  ///< one line each

/// The version of the GPU's driver, such as "580.95.05"; empty where it cannot be found out.
std::string driver_version();

}  // namespace fla::command
