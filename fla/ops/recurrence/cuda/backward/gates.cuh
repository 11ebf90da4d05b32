#pragma once

#include "fla/ops/recurrence/cuda/gates.cuh"

/// From gradients of log-decays and of beta to those of what they are made from.
namespace fla::cuda {

/// The derivative of sigmoid at x.
__device__ inline float sigmoid_slope(float x) {
  const float e = __expf(-fabsf(x)), inverse = __fdividef(1, 1 + e);
  return e * inverse * inverse;
}

/// What a token's gate adds to sums over tokens: to the gradients of dt_bias (or of g_gamma) and of A_log.
struct GateSums {
  float offset = 0, rate = 0;
};

/// One number of g as it came, its gradient as a log-decay, and the head's gate. Returns its own gradient.
__device__ inline float go_through_gate(const RecurrenceCall& call, float g, float gradient, float rate,
                                        float bias, GateSums& sums) {
  if (gradient == 0) return 0;  // of gates of -inf, too
  if (call.gate != Gate::given) {
    const float in = g + bias;
    float by_rate;
    if (call.gate == Gate::bounded) {
      gradient *= call.lower_bound * sigmoid_slope(rate * in) * rate;
      by_rate = gradient * in;
    } else {
      by_rate = gradient * -rate * softplus(in);
      gradient *= -rate * sigmoid(in);
    }
    sums.rate += by_rate;
  }
  sums.offset += gradient;
  return gradient;
}

}  // namespace fla::cuda
