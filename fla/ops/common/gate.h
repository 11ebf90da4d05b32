#pragma once

#include <cmath>
#include <cstdint>

/// The gates that ops compute in their kernels: raw values in, log-decays out.
namespace fla::common {

inline float sigmoid(float x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

/// log(1 + exp(x)), without overflow.
inline float softplus(float x) { return std::fmax(x, 0.0f) + std::log1p(std::exp(-std::fabs(x))); }

/// -rate * softplus(x + bias): no lower bound.
inline void softplus_gate(float rate, const float* bias, std::int64_t count, float* g) {
  for (std::int64_t i = 0; i < count; ++i) g[i] = -rate * softplus(g[i] + (bias ? bias[i] : 0));
}

/// bound * sigmoid(rate * (x + bias)): between bound and 0.
inline void bounded_gate(float bound, float rate, const float* bias, std::int64_t count, float* g) {
  for (std::int64_t i = 0; i < count; ++i) g[i] = bound * sigmoid(rate * (g[i] + (bias ? bias[i] : 0)));
}

}  // namespace fla::common
