#pragma once

#include <string>
#include <string_view>

#include "fla/core/errors.h"

namespace fla::cases {

/// A file cannot be read or written, or is not what it should be. The message is one sentence that begins
/// with the file and, where one is to blame, the tensor: "a.safetensors: tensor 'q': …".
class FileError : public Error {
 public:
  FileError(std::string_view file, std::string_view what) : FileError(file, "", what) {}
  FileError(std::string_view file, std::string_view tensor, std::string_view what);

  const std::string& file() const { return file_; }
  const std::string& tensor() const { return tensor_; }

 private:
  std::string file_, tensor_;
};

/// The text on one line and printable: control characters become \n or \x1b. For names that come out of
/// files.
std::string printable(std::string_view text);

/// The same, shortened in its midst where it is too long for a line: a name in a damaged file may have
/// megabytes.
std::string printable_excerpt(std::string_view text);

}  // namespace fla::cases
