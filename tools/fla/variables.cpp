#include "tools/fla/variables.h"

#include <algorithm>

#include "fla/core/environment.h"
#include "fla/dispatch/observe/ops.h"

namespace fla::command {

std::vector<ListedVariable> listed_variables() {
  std::vector<ListedVariable> list;
  const auto add = [&list](ListedVariable variable) {
    // A backend that serves several ops has one toggle.
    if (std::ranges::count(list, variable.name, &ListedVariable::name) == 0)
      list.push_back(std::move(variable));
  };
  const auto add_own = [&add](const Variable& variable) {
    add({std::string(variable.name), std::string(variable.values), std::string(variable.fallback),
         std::string(variable.meaning)});
  };
  for (const Variable& variable : variables()) add_own(variable);
  for (const OpStatus& op : ops()) {
    for (const BackendStatus& backend : op.backends) {
      if (!backend.info.env_var.empty()) {
        add({std::string(backend.info.env_var), "switch", backend.info.default_enable ? "1" : "0",
             "whether backend " + std::string(backend.info.name) + " is used"});
      }
      for (const Variable& variable : backend.variables) add_own(variable);
    }
  }
  return list;
}

}  // namespace fla::command
