#pragma once

#include <string>
#include <vector>

namespace fla::command {

/// A number as a cell, in printf's words.
std::string formatted(const char* format, double value);

/// Words as a cell: "a, b".
std::string joined(const std::vector<std::string>& words);

/// Rows of cells: as aligned columns for people, or as Markdown for documents.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  /// Columns two blanks apart; those of numbers stand to the right.
  std::string text() const;
  std::string markdown() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fla::command
