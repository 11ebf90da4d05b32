#pragma once

#include <cmath>
#include <cstdint>

namespace fla::common {

/// rsqrt(sum(x^2) + 1e-6)
inline float l2_factor(const float* x, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return 1 / std::sqrt(sum + 1e-6f);
}

/// x * rsqrt(sum(x^2) + 1e-6)
inline void l2_normalise(float* x, std::int64_t count) {
  const float factor = l2_factor(x, count);
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

}  // namespace fla::common
