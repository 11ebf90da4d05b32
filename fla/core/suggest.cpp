#include "fla/core/suggest.h"

#include <algorithm>
#include <cctype>

namespace fla {
namespace {

constexpr std::size_t kLongest = 64;  // no name of ours is longer

std::string lower(std::string_view word) {
  std::string text(word);
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Letters to put in, take out, change or swap with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

const std::string* closest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kLongest) return nullptr;
  const std::string* found = nullptr;
  // Further away it is another word; of a single letter nothing but its case may differ.
  std::size_t least = word.size() < 2 ? 0 : std::max<std::size_t>(1, word.size() / 3);
  for (const std::string& name : known) {
    const std::size_t away = distance(lower(word), lower(name));
    if (away > least || (found != nullptr && away == least)) continue;
    least = away;
    found = &name;
  }
  return found;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  if (const std::string* name = closest(word, known)) return "; did you mean '" + *name + "'?";
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "" : " (known: " + list + ")";
}

}  // namespace fla
