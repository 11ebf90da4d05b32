#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

/// The kernel's way to a file; not installed.
namespace fla {

/// A name that is looked up on the way.
struct Lookup {
  std::filesystem::path folder;  ///< without links
  std::string name;
  bool is_last = false;   ///< it stands for the file itself, or is a link in its place
  int error = 0;          ///< why the way ends here though it should not
  struct stat status {};  ///< of what has that name, which may be a link

  bool is_link() const { return error == 0 && S_ISLNK(status.st_mode); }
};

/// Every lookup between the root and the file at an absolute path, in their order, links followed. Ends at
/// what is no folder or not there.
std::vector<Lookup> way_to(const std::filesystem::path& path);

}  // namespace fla
