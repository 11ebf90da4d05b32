#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/core/scoped_environment.h"
#include "tests/tools/temporary_folder.h"

namespace fla_test {

/// A config file that FLA_CONFIG names while the object lives.
class ConfigInForce {
 public:
  explicit ConfigInForce(const std::string& text) { environment_.emplace(path(), replace(text)); }

  std::string path() const { return folder_ / "config.toml"; }
  const fla::testing::TemporaryFolder& folder() const { return folder_; }

  /// Puts another file in its place, as a whole.
  bool replace(const std::string& text) const {
    folder_.write("next.toml", text);
    std::filesystem::rename(folder_ / "next.toml", path());
    return true;
  }

  /// Writes into the file itself, as editors do that keep its inode.
  void write_into(const std::string& text) const { std::ofstream(path()) << text; }

 private:
  struct Environment : ReloadedEnvironment {
    Environment(const std::string& path, bool /*written*/) : ReloadedEnvironment{{"FLA_CONFIG", path}} {}
  };

  fla::testing::TemporaryFolder folder_;
  std::optional<Environment> environment_;  // goes before the folder, and with it the watch
};

}  // namespace fla_test
