#include "fla/dispatch/rules/ranges.h"

#include <algorithm>

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

}  // namespace fla::dispatch
