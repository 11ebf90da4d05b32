#include "fla/dispatch/settings/unknown_variables.h"

#include <algorithm>

#include "fla/core/suggest.h"

namespace fla::dispatch {

std::map<std::string, std::string> hints_about(const std::map<std::string, std::string>& variables,
                                               const std::vector<std::string>& known) {
  constexpr std::string_view kPrefix = "FLA_";  // which all share, and which makes none closer to another
  std::vector<std::string> endings;
  for (const std::string& name : known) {
    if (name.starts_with(kPrefix)) endings.push_back(name.substr(kPrefix.size()));
  }
  std::map<std::string, std::string> hints;
  for (const auto& [name, value] : variables) {
    if (std::ranges::find(known, name) != known.end() || !name.starts_with(kPrefix)) continue;
    if (const std::string* other = closest(std::string_view(name).substr(kPrefix.size()), endings)) {
      hints[name] = name + " is set, which nothing that is loaded reads; did you mean '" +
                    std::string(kPrefix) + *other + "'?";
    }
  }
  return hints;
}

}  // namespace fla::dispatch
