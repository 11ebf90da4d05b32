#include "fla/dispatch/plugins/path_safety.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "fla/core/path_walk.h"
#include "fla/core/privilege.h"
#include "fla/dispatch/plugins/plugin.h"

namespace fla::dispatch {
namespace {

namespace fs = std::filesystem;

std::string octal(mode_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", mode & 07777u);
  return text.data();
}

bool others_may_write(const struct stat& status) { return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0; }

/// Whether libfla lies in the folder or below it.
bool holds_library(const fs::path& folder, const Trust& trust) {
  const fs::path own = trust.library_folder;
  return std::mismatch(folder.begin(), folder.end(), own.begin(), own.end()).first == folder.end();
}

/// What is wrong with the owner; empty: nothing.
std::string foreign(const struct stat& status, const Trust& trust) {
  if (std::ranges::find(trust.owners, status.st_uid) != trust.owners.end()) return "";
  return "belongs to user " + std::to_string(status.st_uid) +
         ", who is neither root nor the user of this process";
}

std::string folder_problem(const Lookup& lookup, const Trust& trust) {
  if (holds_library(lookup.folder, trust)) return "";
  const std::string which =
      (lookup.is_last ? "lies in " : "is reached through ") + lookup.folder.string() + ", which ";
  struct stat status {};
  if (::lstat(lookup.folder.c_str(), &status) != 0) return which + "cannot be read: " + std::strerror(errno);
  if (const std::string whose = foreign(status, trust); !whose.empty()) return which + whose;
  const bool is_sticky = (status.st_mode & S_ISVTX) != 0;
  if (!others_may_write(status) || (is_sticky && !lookup.is_last)) return "";
  return which + "others than its owner and root may write to (mode " + octal(status.st_mode) + ")";
}

}  // namespace

Trust Trust::of_process() {
  Trust trust{.owners = {0}, .library_folder = fla::library_folder()};
  // A program with capabilities acts as its caller, who is not to choose what it runs.
  if (!is_privileged() || ::geteuid() != ::getuid()) trust.owners.push_back(::geteuid());
  Dl_info info{};
  struct stat status {};
  if (::dladdr(reinterpret_cast<void*>(&fla::library_folder), &info) != 0 && info.dli_fname != nullptr &&
      ::stat(info.dli_fname, &status) == 0)
    trust.owners.push_back(status.st_uid);
  return trust;
}

std::string unsafe(const std::string& path, const Trust& trust) {
  for (const Lookup& lookup : way_to(path)) {
    if (std::string problem = folder_problem(lookup, trust); !problem.empty()) return problem;
    if (lookup.error != 0) return std::string("cannot be read: ") + std::strerror(lookup.error);
    if (!lookup.is_link() && !lookup.is_last) continue;  // a folder, whose turn comes next
    const std::string whose = foreign(lookup.status, trust);
    if (lookup.is_link() && !whose.empty())
      return "is reached through the link " + (lookup.folder / lookup.name).string() + ", which " + whose;
    if (lookup.is_link()) continue;
    if (!whose.empty()) return whose;
    if (others_may_write(lookup.status))
      return "others than its owner and root may write to it (mode " + octal(lookup.status.st_mode) + ")";
  }
  return "";
}

}  // namespace fla::dispatch
