#include "tools/fla/published_times.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>
#include <system_error>

#include "peers_text.h"

namespace fla::command {
namespace {

using Cells = std::map<std::string_view, std::string_view>;  // by the titles of their columns

[[noreturn]] void wrong_peers_text(std::string_view expected) {
  throw std::logic_error("peers.txt: expected " + std::string(expected));
}

/// Cells are two spaces or more apart.
std::vector<std::string_view> split_cells(std::string_view line) {
  std::vector<std::string_view> cells;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find("  "), line.size());
    cells.push_back(line.substr(0, end));
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
  }
  return cells;
}

/// The lines below a title, split into cells.
std::vector<std::vector<std::string_view>> lines_below(std::string_view title) {
  std::string_view text = kPeersText;
  const std::size_t begin = text.find(title);
  if (begin == std::string_view::npos) wrong_peers_text("'" + std::string(title) + "'");
  text.remove_prefix(begin);
  std::vector<std::vector<std::string_view>> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(split_cells(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// The rows of the first table whose heading has all these titles. A line with another number of cells ends
/// it.
std::vector<Cells> rows_below(std::string_view title, std::span<const std::string_view> titles) {
  std::vector<std::string_view> heading;
  std::vector<Cells> rows;
  for (const std::vector<std::string_view>& line : lines_below(title)) {
    if (heading.empty()) {
      const auto has = [&line](std::string_view each) { return std::ranges::count(line, each) > 0; };
      if (line.size() > 1 && std::ranges::all_of(titles, has)) heading = line;
      continue;
    }
    if (line.size() != heading.size()) break;
    Cells& row = rows.emplace_back();
    for (std::size_t i = 0; i < line.size(); ++i) row[heading[i]] = line[i];
  }
  if (rows.empty()) wrong_peers_text("a table below '" + std::string(title) + "'");
  return rows;
}

double milliseconds_in(std::string_view cell) {
  double ms = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), ms);
  if (error != std::errc() || end != cell.data() + cell.size())
    wrong_peers_text("a number, got " + std::string(cell));
  return ms;
}

}  // namespace

std::vector<PublishedTime> published_times(std::string_view title, const Cells& where,
                                           std::span<const PeerColumn> columns) {
  std::vector<std::string_view> titles;
  for (const auto& [each, cell] : where) titles.push_back(each);
  for (const PeerColumn& column : columns) titles.push_back(column.title);
  const std::vector<Cells> rows = rows_below(title, titles);
  const auto row =
      std::ranges::find_if(rows, [&where](const Cells& each) { return std::ranges::includes(each, where); });
  std::vector<PublishedTime> times;
  for (const PeerColumn& column : columns) {
    if (row == rows.end() || row->at(column.title) == "-") continue;
    times.push_back({column.peer, column.mode, 1e-3 * milliseconds_in(row->at(column.title))});
  }
  return times;
}

}  // namespace fla::command
