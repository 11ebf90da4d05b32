#pragma once

#include <cmath>
#include <cstdint>

#include "fla/ops/recurrence/call.h"

/// The recurrence of call.h, written down as it is defined. State S [K][V], row-major.
namespace fla::recurrence {

/// One token of one head: q, k and g [K], v [V]; beta is that of Rule::delta, a and b [K] are those of
/// Rule::low_rank.
struct Token {
  const float *q, *k, *v, *g;
  float beta;
  const float *a = nullptr, *b = nullptr;
};

/// row += x^T S
inline void add_product(std::int64_t K, std::int64_t V, const float* x, const float* __restrict S,
                        float* __restrict row) {
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j) row[j] += x[i] * S[i * V + j];
  }
}
/// S += x row^T
inline void add_outer(std::int64_t K, std::int64_t V, const float* x, const float* __restrict row,
                      float* __restrict S) {
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j) S[i * V + j] += x[i] * row[j];
  }
}

/// Advances S by one token and writes o. `u` is room for V floats.
template <Rule rule>
void recurrent_step(std::int64_t K, std::int64_t V, const Token& token, float scale, float* __restrict S,
                    float* __restrict u, float* __restrict o) {
  for (std::int64_t j = 0; j < V; ++j) u[j] = 0;
  if constexpr (rule == Rule::low_rank) add_product(K, V, token.a, S, u);
  for (std::int64_t i = 0; i < K; ++i) {
    const float decay = std::exp(token.g[i]);
    for (std::int64_t j = 0; j < V; ++j) S[i * V + j] *= decay;
  }
  if constexpr (rule == Rule::delta) {
    add_product(K, V, token.k, S, u);
    for (std::int64_t j = 0; j < V; ++j) u[j] = token.beta * (token.v[j] - u[j]);
    add_outer(K, V, token.k, u, S);
  } else {
    if constexpr (rule == Rule::low_rank) add_outer(K, V, token.b, u, S);
    add_outer(K, V, token.k, token.v, S);
  }
  for (std::int64_t j = 0; j < V; ++j) o[j] = 0;
  add_product(K, V, token.q, S, o);
  for (std::int64_t j = 0; j < V; ++j) o[j] *= scale;
}

}  // namespace fla::recurrence
