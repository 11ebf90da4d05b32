#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/temporary_folder.h"

namespace fla_test {

/// A folder of a test's own to load plugins from, which nobody else may write to.
class PluginFolder : public fla::testing::TemporaryFolder {
 public:
  PluginFolder() { std::filesystem::permissions(path(), std::filesystem::perms{0755}); }

  std::string path() const { return std::filesystem::path(*this / "x").parent_path().string(); }

  /// One of the test's plugins under a name of the test's choice.
  std::string copy(const std::string& plugin, const std::string& as = "") const {
    std::string to = *this / ((as.empty() ? plugin : as) + ".so");
    std::filesystem::copy_file(std::string(FLA_TEST_PLUGINS) + "/" + plugin + ".so", to);
    std::filesystem::permissions(to, std::filesystem::perms{0755});
    return to;
  }

  /// What plugins wrote down; see events.h.
  std::string events_file() const { return *this / "events"; }
  std::vector<std::string> events() const {
    std::vector<std::string> found;
    std::istringstream lines(fla::testing::read_bytes(events_file()));
    for (std::string line; std::getline(lines, line);) found.push_back(line);
    return found;
  }
};

}  // namespace fla_test
