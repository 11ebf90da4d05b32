#pragma once

#include <string>

namespace fla_test {

/// Whether a plugin is one of the library's own, which lie beside it.
inline bool is_module(const std::string& path) { return path.find("/fla/plugins/") != std::string::npos; }

}  // namespace fla_test
