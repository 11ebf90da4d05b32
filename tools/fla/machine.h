#pragma once

#include <nlohmann/json.hpp>

namespace fla::command {

/// What a reader of measurements wants to know of where they were made: cpu, cores, system, compiler,
/// version.
nlohmann::ordered_json machine_facts();

}  // namespace fla::command
