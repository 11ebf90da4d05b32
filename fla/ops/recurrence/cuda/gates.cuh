#pragma once

#include "fla/ops/common/cuda/elements.cuh"
#include "fla/ops/common/cuda/instructions.cuh"
#include "fla/ops/recurrence/cuda/kernels.h"

/// What becomes of raw g and beta. Log-decays are kept in powers of two: decay = 2^g. Errors are relative to
/// the gate, a few units in its last place, also where it is next to nothing: a slow gate's adds up over
/// thousands of tokens.
namespace fla::cuda {

inline constexpr float kLog2e = 1.4426950408889634f;

/// 2^x for x <= 0; -inf gives 0, and so does what underflows.
__device__ inline float exp2_decay(float x) { return exp2_approximately(x); }

__device__ inline float sigmoid(float x) {
  const float e = __expf(-fabsf(x));
  return __fdividef(x >= 0 ? 1 : e, 1 + e);
}

__device__ inline float softplus(float x) { return fmaxf(x, 0) + log1pf(__expf(-fabsf(x))); }

/// A value head's factor exp(A_log); 1 where there is none.
__device__ inline float gate_rate(const RecurrenceCall& call, int head) {
  const Parameters& A_log = call.A_log;
  return call.gate != Gate::given && A_log.data ? expf(load(A_log.data, A_log.dtype, head * A_log.head)) : 1;
}

__device__ inline float gate_bias(const RecurrenceCall& call, int head, int channel) {
  const Parameters& bias = call.dt_bias;
  if (call.gate == Gate::given || !bias.data || channel >= call.K) return 0;
  return load(bias.data, bias.dtype, head * bias.head + channel * bias.channel);
}

/// The log2-decay of a head whose call has no g.
template <class Call>
__device__ float head_log2_decay(const Call& call, int head) {
  return call.gate_kind == GateKind::none ? 0 : kLog2e * head_decay(call, head);
}

/// The log2-decays that raw values x stand for, in their place.
template <class Call, int count>
__device__ void log2_decays(const Call& call, float rate, const float (&bias)[count], float (&x)[count]) {
  switch (call.gate) {
    case Gate::softplus:
#pragma unroll
      for (int i = 0; i < count; ++i) x[i] = -rate * kLog2e * softplus(x[i] + bias[i]);
      break;
    case Gate::bounded:
#pragma unroll
      for (int i = 0; i < count; ++i) x[i] = call.lower_bound * kLog2e * sigmoid(rate * (x[i] + bias[i]));
      break;
    case Gate::given:
#pragma unroll
      for (int i = 0; i < count; ++i) x[i] *= kLog2e;
      break;
  }
}

template <class Call>
__device__ float beta_of(const Call& call, float raw) {
  return call.beta_sigmoid ? sigmoid(raw) * (call.neg_eigval ? 2.0f : 1.0f) : raw;
}

}  // namespace fla::cuda
