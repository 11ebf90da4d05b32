#pragma once

#include "backends/flash_kda/params.h"

/// What becomes of raw g and beta. Gates leave as decays, 2^(g log2 e) in [0, 1]; their logarithm's error is
/// relative to the gate also where it is next to nothing: a slow gate's adds up over thousands of tokens.
namespace fla::flash_kda {

inline constexpr float kLog2e = 1.4426950408889634f;

/// Reading is in two steps, bits first and their meaning later: what is not looked at is not waited for.
FLA_DEVICE std::uint32_t element_bits(const void* data, DType dtype, std::int64_t at) {
  return dtype == DType::f32 ? static_cast<const std::uint32_t*>(data)[at]
                             : static_cast<const std::uint16_t*>(data)[at];
}
FLA_DEVICE float element(std::uint32_t bits, DType dtype) {
  const float wide = bits_f32(dtype == DType::f32 ? bits : bits << 16), half = unpack_f16(bits).x;
  return dtype == DType::f16 ? half : wide;
}

FLA_DEVICE float beta_of(const RecurrenceCall& call, float raw) {
  if (!call.beta_sigmoid) return raw;
  return (call.neg_eigval ? 2.0f : 1.0f) * rcp(1.0f + ex2(-kLog2e * raw));
}

/// Of four channels: the decay is a function of slope x + offset, and rate.
struct Gates {
  float slope, rate;
  F4 offset;
};
FLA_DEVICE Gates gates_of(const RecurrenceCall& call, float A_log, F4 bias) {
  const bool bounded = call.gate == Gate::bounded;
  const float rate = ex2(kLog2e * A_log), slope = bounded ? -kLog2e * rate : kLog2e;
  return {slope, bounded ? rcp(call.lower_bound * kLog2e) : -rate,
          F4{slope * bias.x, slope * bias.y, slope * bias.z, slope * bias.w}};
}

/// log2(1 + e) / e for e in [0, 1], to 3e-7.
FLA_DEVICE float log2_of_one_plus(float e) {
  float y = -0.0123706432f;
  y = fma_of(y, e, 0.0637875944f);
  y = fma_of(y, e, -0.155599967f);
  y = fma_of(y, e, 0.25617969f);
  y = fma_of(y, e, -0.353454679f);
  y = fma_of(y, e, 0.48007375f);
  y = fma_of(y, e, -0.721310735f);
  return fma_of(y, e, 1.44269478f);
}

/// Its logarithm, base 2.
template <Gate gate>
FLA_DEVICE float log_decay_of(float x, float slope, float rate, float offset) {
  if constexpr (gate == Gate::given) return x * slope;
  const float z = fma_of(x, slope, offset);
  if constexpr (gate == Gate::bounded)  // lb log2(e) sigmoid(rate (x + bias)) = 1 / (r + r 2^-z)
    return rcp(fma_of(ex2(z), rate, rate));
  const float e = ex2(z < 0.0f ? z : -z);  // log2(e) softplus(x + bias) = max(z, 0) + log2(1 + 2^-|z|)
  return rate * fma_of(e, log2_of_one_plus(e), z > 0.0f ? z : 0.0f);
}
template <Gate gate>
FLA_DEVICE float decay_of(float x, float slope, float rate, float offset) {
  return ex2(log_decay_of<gate>(x, slope, rate, offset));
}
/// Of a gate that has one number per token.
FLA_DEVICE float log_decay_of(Gate gate, const Gates& gates, float x) {
  const float offset = gates.offset.x;
  if (gate == Gate::bounded) return log_decay_of<Gate::bounded>(x, gates.slope, gates.rate, offset);
  if (gate == Gate::softplus) return log_decay_of<Gate::softplus>(x, gates.slope, gates.rate, offset);
  return log_decay_of<Gate::given>(x, gates.slope, gates.rate, offset);
}

/// Raw values of tokens first to last - 1 to decays, in their place; between tokens meanwhile(j), for other
/// units than these functions take.
template <Gate gate, int first, int last, class Meanwhile>
FLA_DEVICE void decays(const Gates& gates, float (&x)[8][4], Meanwhile&& meanwhile) {
  const float offset[4] = {gates.offset.x, gates.offset.y, gates.offset.z, gates.offset.w};
#pragma unroll
  for (int j = first; j < last; ++j) {
    meanwhile(j);
#pragma unroll
    for (int c = 0; c < 4; ++c) x[j][c] = decay_of<gate>(x[j][c], gates.slope, gates.rate, offset[c]);
  }
}

}  // namespace fla::flash_kda
