#include "tools/fla/text_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace fla::command {
namespace {

/// How many columns a terminal gives the text: bytes that do not continue a UTF-8 character.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool is_number(const std::string& cell) {
  if (cell.empty()) return false;
  const auto first = static_cast<unsigned char>(cell.front());
  return cell == "-" || std::isdigit(first) != 0 || (cell.size() > 1 && (first == '-' || first == '+'));
}

std::string escaped(const std::string& cell) {
  std::string text;
  for (const char c : cell) {
    if (c == '|') text += '\\';
    text += c;
  }
  return text;
}

}  // namespace

std::string formatted(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  // A header stands to the side that its column's cells stand to.
  std::vector<bool> right(widths.size(), false);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    right[i] = rows_.size() > 1 && std::all_of(rows_.begin() + 1, rows_.end(), [i](const auto& row) {
                 return i >= row.size() || row[i].empty() || is_number(row[i]);
               });
  }
  std::string result;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width(row[i]), ' ');
      if (i > 0) line += "  ";
      line += right[i] ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

std::string TextTable::markdown() const {
  std::string result;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (const std::string& cell : rows_[r]) result += "| " + escaped(cell) + (cell.empty() ? "" : " ");
    result += "|\n";
    if (r > 0) continue;
    for (std::size_t i = 0; i < rows_[r].size(); ++i) result += "| --- ";
    result += "|\n";
  }
  return result;
}

}  // namespace fla::command
