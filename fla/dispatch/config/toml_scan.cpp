#include "fla/dispatch/config/toml_scan.h"

#include <algorithm>
#include <string>

namespace fla::dispatch {
namespace {

/// Where the string that begins at `at` ends, quotes included. One that is not closed ends with its line, or
/// with the text if it may have many lines.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const bool many_lines = text.substr(at).starts_with(std::string(3, text[at]));
  const std::string_view quotes = text.substr(at, many_lines ? 3 : 1);
  const bool escapes = quotes.front() == '"';
  for (at += quotes.size(); at < text.size(); ++at) {
    if (escapes && text[at] == '\\') {
      ++at;
    } else if (text[at] == '\n' && !many_lines) {
      return at;
    } else if (text.substr(at).starts_with(quotes)) {
      at += quotes.size();
      // Up to two quotes before the closing three are part of the string.
      for (int i = 0; many_lines && i < 2 && at < text.size() && text[at] == quotes.front(); ++i) ++at;
      return at;
    }
  }
  return text.size();
}

}  // namespace

std::optional<int> line_of_long_key(std::string_view text, int most_parts) {
  int line = 1, parts = 1;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    const char c = text[at];
    end = at + 1;
    if (c == '#') {
      end = std::min(text.find('\n', at), text.size());
    } else if (c == '\'' || c == '"') {
      end = end_of_string(text, at);
    } else if (c == '.') {
      if (++parts > most_parts) return line;
    } else if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) {
      parts = 1;
    }
    line += static_cast<int>(std::ranges::count(text.substr(at, end - at), '\n'));
  }
  return std::nullopt;
}

}  // namespace fla::dispatch
