#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace fla {

/// JSON on one line, valid whatever it was given: names of files, values of variables and texts of backends
/// are bytes, and those that are no UTF-8 become U+FFFD. All JSON that leaves the program is made here.
template <class Json>
std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fla
