#pragma once

#include <cstdint>

namespace fla::common {

/// y += sum over n < count of a[n * step] * X[n], where X[n] are rows of `width` floats. Two rows at a time:
/// y is read and written half as often.
inline void add_rows(std::int64_t count, std::int64_t width, const float* a, std::int64_t step,
                     const float* __restrict X, float* __restrict y) {
  std::int64_t n = 0;
  for (; n + 2 <= count; n += 2) {
    const float* __restrict x = X + n * width;
    const float first = a[n * step], second = a[(n + 1) * step];
    for (std::int64_t j = 0; j < width; ++j) y[j] += first * x[j] + second * x[width + j];
  }
  if (n == count) return;
  for (std::int64_t j = 0; j < width; ++j) y[j] += a[n * step] * X[n * width + j];
}

}  // namespace fla::common
