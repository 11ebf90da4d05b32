#pragma once

#include <algorithm>
#include <cstdint>

namespace fla::common {

inline constexpr std::int64_t kMaxTril = 64;

/// One row after the other of T = (I + A)^-1, where A is strictly lower triangular: forward substitution,
/// T[i] = e_i - sum over m < i of A[i][m] T[m].
class UnitLowerInverse {
 public:
  /// a: A[i][0 .. i). Returns T[i][0 .. i].
  const float* add_row(const float* a) {
    float* __restrict row = rows_[count_];
    std::fill_n(row, count_, 0.0f);
    for (std::int64_t m = 0; m < count_; ++m) {
      const float* __restrict earlier = rows_[m];
      for (std::int64_t j = 0; j <= m; ++j) row[j] -= a[m] * earlier[j];
    }
    row[count_++] = 1;
    return row;
  }

 private:
  std::int64_t count_ = 0;
  float rows_[kMaxTril][kMaxTril];
};

}  // namespace fla::common
