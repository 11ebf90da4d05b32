#include "fla/dispatch/ranges.h"

#include <algorithm>
#include <iterator>

namespace fla::dispatch {

Ranges::Ranges(std::int64_t first, std::int64_t last) {
  if (first <= last) ranges_.push_back({first, last});
}

Ranges Ranges::of(std::vector<Range> ranges) {
  std::erase_if(ranges, [](const Range& range) { return range.first > range.last; });
  std::ranges::sort(ranges, {}, &Range::first);
  Ranges result;
  for (const Range& range : ranges) {
    // One that begins where the last one ends, or before, prolongs it.
    if (!result.ranges_.empty() &&
        (result.ranges_.back().last == kMost || range.first <= result.ranges_.back().last + 1)) {
      result.ranges_.back().last = std::max(result.ranges_.back().last, range.last);
    } else {
      result.ranges_.push_back(range);
    }
  }
  return result;
}

Ranges Ranges::complement() const {
  Ranges result;
  std::int64_t next = kLeast;
  for (const Range& range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    if (range.last == kMost) return result;
    next = range.last + 1;
  }
  result.ranges_.push_back({next, kMost});
  return result;
}

Ranges Ranges::intersection(const Ranges& other) const {
  Ranges result;
  auto a = ranges_.begin(), b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const std::int64_t first = std::max(a->first, b->first), last = std::min(a->last, b->last);
    if (first <= last) result.ranges_.push_back({first, last});
    (a->last < b->last ? a : b)++;
  }
  return result;
}

Ranges Ranges::union_with(const Ranges& other) const {
  return complement().intersection(other.complement()).complement();
}

bool Ranges::contains(std::int64_t value) const {
  const auto next = std::ranges::upper_bound(ranges_, value, {}, &Range::first);
  return next != ranges_.begin() && value <= std::prev(next)->last;
}

}  // namespace fla::dispatch
