#include "tests/emulation/findings.h"

namespace fla::emulation {

std::string text_of(Site site) {
  const std::string_view file = site.file;
  return std::string(file.substr(file.find_last_of('/') + 1)) + ":" + std::to_string(site.line);
}

std::string count_of(std::size_t count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::race: return "race";
    case Fault::missing_fence: return "missing fence";
    case Fault::uninitialised_read: return "uninitialised read";
    case Fault::rewritten_source: return "rewritten source";
    case Fault::out_of_bounds: return "out of bounds";
    case Fault::deadlock: return "deadlock";
    case Fault::missed_phase: return "missed phase";
    case Fault::misuse: break;
  }
  return "misuse";
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += std::string(name_of(finding.fault)) + ": " + finding.text + "\n";
  return text;
}

}  // namespace fla::emulation
