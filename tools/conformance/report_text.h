#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/conformance/conformance.h"

/// What crosses from a child process to its parent.
namespace fla::conformance {

std::string packed(const std::vector<std::string>& texts);
std::vector<std::string> unpacked_texts(std::string_view bytes);

std::string packed(const Report& report);
/// Throws Error when the bytes are not those of a report.
Report unpacked_report(std::string_view bytes);

}  // namespace fla::conformance
