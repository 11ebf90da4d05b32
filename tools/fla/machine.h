#pragma once

#include <nlohmann/json.hpp>

#include "fla/core/device.h"

namespace fla::command {

/// What a reader of measurements wants to know of where they were made: cpu, cores, system, compiler,
/// version.
nlohmann::ordered_json machine_facts();

/// The same and, of a GPU that is there: gpu, multiprocessors, driver, cuda (the driver's), cuda_toolkit
/// (what the kernels were built with).
nlohmann::ordered_json machine_facts(Device device);

}  // namespace fla::command
