#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tools/cases/deferred_signals.h"

namespace fla::cases {

/// A file that appears under its name when it is complete, or not at all: it is written beside its place and
/// renamed by commit(). Without commit() nothing is left, and a signal that ends the process leaves nothing
/// either. Links are followed: what they lead to is written, whether it is there or not. A file that is there
/// keeps its permissions. What is there and is no regular file (/dev/stdout, a pipe) is written to directly.
/// Throws FileError.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

  /// Whether a file could be written there, found out before the work that fills it. Throws FileError if not.
  static void check_writable(const std::string& path);

 private:
  // First, so that the signal takes effect when all is cleared away. None for what is written directly: that
  // may take as long as its reader likes.
  std::optional<DeferredSignals> signals_;
  std::string path_;       // as the caller gave it, for messages
  std::string target_;     // where it will be, links followed
  std::string temporary_;  // empty when written directly
  int descriptor_ = -1;
};

}  // namespace fla::cases
