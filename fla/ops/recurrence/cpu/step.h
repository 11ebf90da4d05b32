#pragma once

#include <cmath>
#include <cstdint>

/// The recurrence of call.h, written down as it is defined. State S [K][V], row-major.
namespace fla::recurrence {

/// One token of one head: q, k and g [K], v [V].
struct Token {
  const float *q, *k, *v, *g;
  float beta;
};

/// Advances S by one token and writes o. `u` is room for V floats.
inline void recurrent_step(std::int64_t K, std::int64_t V, const Token& token, float scale,
                           float* __restrict S, float* __restrict u, float* __restrict o) {
  for (std::int64_t i = 0; i < K; ++i) {
    const float decay = std::exp(token.g[i]);
    for (std::int64_t j = 0; j < V; ++j) S[i * V + j] *= decay;
  }
  for (std::int64_t j = 0; j < V; ++j) u[j] = 0;
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j) u[j] += token.k[i] * S[i * V + j];
  }
  for (std::int64_t j = 0; j < V; ++j) u[j] = token.beta * (token.v[j] - u[j]);
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j) S[i * V + j] += token.k[i] * u[j];
  }
  for (std::int64_t j = 0; j < V; ++j) o[j] = 0;
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j) o[j] += token.q[i] * S[i * V + j];
  }
  for (std::int64_t j = 0; j < V; ++j) o[j] *= scale;
}

}  // namespace fla::recurrence
