#include "tools/cases/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tools/cases/file_error.h"

namespace fla::cases {
namespace {

namespace fs = std::filesystem;

std::string cannot_write(int error) { return std::string("cannot be written: ") + std::strerror(error); }

/// The place that the path leads to, there or not: the last name's links are followed one by one, because the
/// file system follows none whose end is missing. Throws FileError.
fs::path resolve(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  fs::path target = path;
  std::error_code error;
  for (int followed = 0; fs::is_symlink(fs::symlink_status(target, error)); ++followed) {
    if (followed == kMostLinks) throw FileError(path, cannot_write(ELOOP));
    const fs::path next = fs::read_symlink(target, error);
    if (error) throw FileError(path, cannot_write(error.value()));
    target = target.parent_path() / next;  // which is `next` alone if that is absolute
  }
  return target;
}

bool is_special(const fs::path& target) {
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

/// mkostemp makes files private. This one gets what the file has that it replaces, or what any new file has.
bool take_over_permissions(int descriptor, const std::string& target) {
  struct stat old {};
  if (::stat(target.c_str(), &old) != 0) {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return ::fchmod(descriptor, 0666 & ~mask) == 0;
  }
  // Only root may give a file away; for others it becomes theirs, as with every tool that renames.
  struct stat made {};
  if (::fstat(descriptor, &made) != 0) return false;
  if (made.st_uid != old.st_uid || made.st_gid != old.st_gid)
    static_cast<void>(::fchown(descriptor, old.st_uid, old.st_gid) == 0);
  return ::fchmod(descriptor, old.st_mode & 0777) == 0;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  check_writable(path);
  if (is_special(path)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    const fs::path target = resolve(path);
    target_ = target.string();
    temporary_ = (folder_of(target) / ".fla.XXXXXX").string();
    signals_.emplace();
    descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  }
  if (descriptor_ < 0) {
    const int error = errno;
    temporary_.clear();
    throw FileError(path_, cannot_write(error));
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t size) {
  constexpr std::size_t kPiece = std::size_t{1} << 24;  // a signal waits for no more than this
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    if (signals_ && DeferredSignals::pending() != 0) throw FileError(path_, "was not written: interrupted");
    const ssize_t written = ::write(descriptor_, next, std::min(size, kPiece));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw FileError(path_, cannot_write(errno));
    }
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (!temporary_.empty() && !take_over_permissions(descriptor_, target_))
    throw FileError(path_, cannot_write(errno));
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) throw FileError(path_, cannot_write(errno));
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw FileError(path_, cannot_write(errno));
  temporary_.clear();
}

void AtomicFile::check_writable(const std::string& path) {
  if (path.empty()) throw FileError("''", "a file name was expected, got an empty one");
  const fs::path target = resolve(path);
  std::error_code error;
  if (fs::is_directory(target, error) || path.back() == '/') {
    throw FileError(path, "a file was expected, got a folder");
  }
  if (is_special(path)) return;
  const fs::path folder = folder_of(target);
  if (!fs::is_directory(folder, error)) {
    throw FileError(path, "cannot be written: there is no folder '" + folder.string() + "'");
  }
  // A file that may not be written is not replaced either, although the folder would allow it.
  if (::access(folder.c_str(), W_OK | X_OK) != 0 ||
      (fs::exists(target, error) && ::access(target.c_str(), W_OK) != 0))
    throw FileError(path, cannot_write(errno));
}

}  // namespace fla::cases
