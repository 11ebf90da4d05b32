#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

namespace fla::command {

/// JSON has no infinity: null stands for a result that is no number.
inline nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace fla::command
