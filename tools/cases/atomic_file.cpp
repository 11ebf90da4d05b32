#include "tools/cases/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tools/cases/file_error.h"

namespace fla::cases {
namespace {

namespace fs = std::filesystem;

std::string cannot_write(int error) { return std::string("cannot be written: ") + std::strerror(error); }

/// The place that the path leads to: a link's target, so that the link itself stays.
fs::path resolve(const std::string& path) {
  std::error_code error;
  fs::path target = fs::weakly_canonical(path, error);
  return error ? fs::path(path) : target;
}

bool is_special(const fs::path& target) {
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  check_writable(path);
  if (is_special(path)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    target_ = resolve(path).string();
    temporary_ = target_ + ".XXXXXX";
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
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, next, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      throw FileError(path_, cannot_write(errno));
    }
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (!temporary_.empty()) {
    // mkostemp makes files private; this one gets the rights that any new file has.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(descriptor_, 0666 & ~mask) != 0) throw FileError(path_, cannot_write(errno));
  }
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
  if (::access(folder.c_str(), W_OK | X_OK) != 0) throw FileError(path, cannot_write(errno));
}

}  // namespace fla::cases
