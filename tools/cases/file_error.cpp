#include "tools/cases/file_error.h"

namespace fla::cases {
namespace {

std::string message(std::string_view file, std::string_view tensor, std::string_view what) {
  std::string text = printable(file) + ": ";
  if (!tensor.empty()) text += "tensor '" + printable(tensor) + "': ";
  return text + printable(what);
}

}  // namespace

FileError::FileError(std::string_view file, std::string_view tensor, std::string_view what)
    : Error(message(file, tensor, what)), file_(file), tensor_(tensor) {}

std::string printable(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace fla::cases
