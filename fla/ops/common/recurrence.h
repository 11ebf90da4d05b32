#pragma once

#include <cmath>
#include <cstdint>

/// The one recurrence behind every op, written down as it is defined. State S [K][V], row-major.
///
///     S <- diag(exp(g)) S                        Gate: none, one number, or one a channel
///     S <- S + k u^T     u = v                   Rule::additive
///                        u = beta (v - k^T S)    Rule::delta
///     o = scale * q^T S
namespace fla::common {

enum class Gate { none, scalar, channel };
enum class Rule { additive, delta };

/// One token of one head. Read by the step; g and beta only where the gate and the rule want them.
struct Token {
  const float *q, *k, *v, *g;
  float beta;
};

/// Advances S by one token and writes o. `u` is room for V floats.
template <Gate gate, Rule rule>
void recurrent_step(std::int64_t K, std::int64_t V, const Token& token, float scale, float* __restrict S,
                    float* __restrict u, float* __restrict o) {
  if constexpr (gate != Gate::none) {
    for (std::int64_t i = 0; i < K; ++i) {
      const float decay = std::exp(token.g[gate == Gate::scalar ? 0 : i]);
      for (std::int64_t j = 0; j < V; ++j) S[i * V + j] *= decay;
    }
  }
  if constexpr (rule == Rule::delta) {
    for (std::int64_t j = 0; j < V; ++j) u[j] = 0;
    for (std::int64_t i = 0; i < K; ++i) {
      for (std::int64_t j = 0; j < V; ++j) u[j] += token.k[i] * S[i * V + j];
    }
    for (std::int64_t j = 0; j < V; ++j) u[j] = token.beta * (token.v[j] - u[j]);
  } else {
    for (std::int64_t j = 0; j < V; ++j) u[j] = token.v[j];
  }
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j) S[i * V + j] += token.k[i] * u[j];
  }
  for (std::int64_t j = 0; j < V; ++j) o[j] = 0;
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j) o[j] += token.q[i] * S[i * V + j];
  }
  for (std::int64_t j = 0; j < V; ++j) o[j] *= scale;
}

}  // namespace fla::common
