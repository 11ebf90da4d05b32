#include "fla/dispatch/toml_scan.h"

#include <algorithm>

namespace fla::dispatch {
namespace {

constexpr bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

struct Quoted {
  std::size_t length = 0;  ///< quotes included; of one that does not end, up to the end of its line or text
  bool foreign = false;    ///< a character beyond ASCII where the parser skips white space
};

/// The string that the text begins with.
Quoted quoted(std::string_view text) {
  const char quote = text.front();
  const bool escapes = quote == '"';
  const bool many_lines = text.size() >= 3 && text[1] == quote && text[2] == quote;
  Quoted found;
  for (std::size_t at = many_lines ? 3 : 1; at < text.size(); ++at) {
    if (escapes && text[at] == '\\') {
      ++at;
      // A backslash before the end of a line joins it to the next word.
      const std::size_t word = text.find_first_not_of(" \t\r\n", at);
      if (word != at && word < text.size() && !is_ascii(text[word])) found.foreign = true;
      if (at < text.size() && !is_ascii(text[at])) found.foreign = true;
    } else if (text[at] == '\n' && !many_lines) {
      found.length = at;
      return found;
    } else if (text[at] == quote) {
      found.length = at + 1;
      if (!many_lines) return found;
      if (!text.substr(at).starts_with(text.substr(0, 3))) continue;
      found.length = at + 3;  // up to two more quotes are part of the string
      while (found.length < std::min(at + 5, text.size()) && text[found.length] == quote) ++found.length;
      return found;
    }
  }
  found.length = text.size();
  return found;
}

}  // namespace

std::optional<TomlProblem> scan_toml(std::string_view text, int most_parts) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf", kEnds = "\n=,[]{}";
  int line = 1, parts = 1;
  for (std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0; at < text.size();) {
    const char c = text[at];
    std::size_t length = 1;
    bool foreign = !is_ascii(c);
    if (c == '#') {
      length = std::min(text.find('\n', at), text.size()) - at;
    } else if (c == '\'' || c == '"') {
      const Quoted string = quoted(text.substr(at));
      length = string.length;
      foreign = string.foreign;
    } else if (c == '.') {
      if (++parts > most_parts) {
        return TomlProblem{
            line, "expected keys of at most " + std::to_string(most_parts) + " parts, got one with more"};
      }
    } else if (kEnds.find(c) != std::string_view::npos) {
      parts = 1;
    }
    if (foreign) return TomlProblem{line, "not TOML: a character beyond ASCII outside of quotes"};
    line += static_cast<int>(std::ranges::count(text.substr(at, length), '\n'));
    at += length;
  }
  return std::nullopt;
}

}  // namespace fla::dispatch
