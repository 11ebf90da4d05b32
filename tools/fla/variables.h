#pragma once

#include <string>
#include <vector>

namespace fla::command {

struct ListedVariable {
  std::string name, values, fallback, meaning;
};

/// Every variable that the library obeys: its own, then each backend's toggle followed by the backend's own.
std::vector<ListedVariable> listed_variables();

}  // namespace fla::command
