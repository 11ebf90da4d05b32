#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "fla/core/export.h"

namespace fla::dispatch {

/// A set of 64-bit numbers, kept as the fewest closed ranges in ascending order. What a comparison says about
/// a fact of a call is one of these.
class FLA_API Ranges {
 public:
  static constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

  struct Range {
    std::int64_t first, last;
    friend bool operator==(const Range&, const Range&) = default;
  };

  Ranges() = default;  ///< nothing
  /// [first, last]; nothing when first is greater.
  Ranges(std::int64_t first, std::int64_t last);
  /// What any of them holds; they may overlap and come in any order. In time that hardly grows faster than
  /// their number, which one union after the other would not do.
  static Ranges of(std::vector<Range> ranges);

  Ranges complement() const;

  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }

  friend bool operator==(const Ranges&, const Ranges&) = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace fla::dispatch
