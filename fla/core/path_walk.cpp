#include "fla/core/path_walk.h"

#include <algorithm>
#include <cerrno>
#include <list>
#include <system_error>

namespace fla {

std::vector<Lookup> way_to(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  std::vector<Lookup> way;
  std::list<std::string> rest(path.begin(), path.end());
  std::filesystem::path at = "/";
  for (int links = 0; !rest.empty();) {
    const std::string name = rest.front();
    rest.pop_front();
    if (name.empty() || name == "." || name == "/") continue;
    if (name == "..") {
      at = at.parent_path();
      continue;
    }
    Lookup& next = way.emplace_back(Lookup{.folder = at, .name = name});
    next.is_last = std::ranges::all_of(rest, [](const std::string& each) { return each.empty(); });
    const std::filesystem::path here = at / name;
    if (::lstat(here.c_str(), &next.status) != 0) {
      next.error = errno;
      return way;
    }
    if (next.is_link()) {
      std::error_code error;
      const std::filesystem::path target = std::filesystem::read_symlink(here, error);
      if (error || ++links > kMostLinks) {
        next.error = error ? error.value() : ELOOP;
        return way;
      }
      if (target.is_absolute()) at = "/";
      rest.insert(rest.begin(), target.begin(), target.end());
    } else {
      at = here;
    }
  }
  return way;
}

}  // namespace fla
