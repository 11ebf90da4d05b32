#pragma once

#include <nlohmann/json.hpp>

#include "fla/core/arguments.h"

namespace fla::command {

/// The sizes of a benchmark's call under their names, as far as it has them.
nlohmann::ordered_json shape_json(const AxisSizes& sizes);

}  // namespace fla::command
