#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fla/core/device.h"
#include "fla/core/dtype.h"

namespace fla::command {

/// name=value pairs of the command line, in their order.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Splits each word at its first '='; without one the value is `absent`.
Settings parse_settings(const std::vector<std::string>& words, const std::string& absent);

/// Throw InvalidArgument for a name that is none.
DType parse_dtype(const std::string& name);
Device parse_device(const std::string& name);

}  // namespace fla::command
