#include "tools/cases/file_error.h"

namespace fla::cases {
namespace {

std::string message(std::string_view file, std::string_view tensor, std::string_view what) {
  std::string text = printable(file) + ": ";
  if (!tensor.empty()) text += "tensor '" + printable_excerpt(tensor) + "': ";
  return text + printable_excerpt(what);
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

std::string printable_excerpt(std::string_view text) {
  constexpr std::size_t kHead = 700, kTail = 300;
  if (text.size() <= kHead + kTail) return printable(text);
  const auto cuts_a_character = [text](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;  // in the midst of its bytes
  };
  std::size_t head = kHead, tail = text.size() - kTail;
  while (head > 0 && cuts_a_character(head)) --head;
  while (tail < text.size() && cuts_a_character(tail)) ++tail;
  return printable(text.substr(0, head)) + "... (" + std::to_string(tail - head) + " more bytes) ..." +
         printable(text.substr(tail));
}

}  // namespace fla::cases
