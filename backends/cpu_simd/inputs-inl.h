// What a kernel reads of a head's tokens: rows as floats, with the norm, the gate and beta's sigmoid applied
// as the call asks for. Included once for every SIMD target.

#if defined(FLA_BACKENDS_CPU_SIMD_INPUTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_INPUTS_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_INPUTS_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_INPUTS_INL_H_
#endif

#include <cmath>

#include "backends/cpu_simd/exp2-inl.h"
#include "backends/cpu_simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

// Reads tokens of one head. Rows have `padded` floats, a multiple of the lanes; channels behind K are zero.
struct TokenReader {
  const RecurrenceCall& call;
  const Head& head;
  std::size_t K, padded;
  const float* bias;  // dt_bias of the head, padded; null when absent

  // Log2 of a token's decay is gate_unit() times its gate row.
  float gate_unit() const { return call.gate != Gate::given ? 1.f : kLog2e; }

  // `width`: `padded`, or, of a gate that all channels have, as many floats as are wanted, whole vectors.
  HWY_INLINE const float* gate_row(std::int64_t token, float* HWY_RESTRICT buffer, std::size_t width) const {
    const DF d;
    const std::size_t N = hn::Lanes(d);
    if (call.gate_kind == GateKind::channel) {
      if (call.gate == Gate::given) return as_floats(head.g.at(token), head.g.dtype, K, padded, buffer);
      copy_row(head.g.at(token), head.g.dtype, K, padded, buffer);
    } else {  // the same for all channels
      const float g = head.gates == 0 ? head.fixed_gate : scalar_at(head.g.at(token), head.g.dtype);
      for (std::size_t c = 0; c < width; c += N) hn::Store(hn::Set(d, g), d, buffer + c);
      if (call.gate == Gate::given) return buffer;
    }
    const bool bounded = call.gate == Gate::bounded;
    const VF rate = hn::Set(d, bounded ? head.gate_rate * kLog2e : -head.gate_rate);
    for (std::size_t c = 0; c < width; c += N) {
      VF x = hn::Load(d, buffer + c);
      if (bias) x = hn::Add(x, hn::Load(d, bias + c));
      const VF log2_decay =
          bounded ? hn::Mul(hn::Set(d, call.lower_bound * kLog2e), sigmoid2(d, hn::Mul(rate, x)))
                  : hn::Mul(rate, softplus2(d, hn::Mul(x, hn::Set(d, kLog2e))));
      hn::Store(log2_decay, d, buffer + c);
    }
    for (std::size_t c = K; c < width; ++c) buffer[c] = 0.f;
    return buffer;
  }

  HWY_INLINE const float* q_row(std::int64_t token, float* HWY_RESTRICT buffer) const {
    return as_floats(head.q.at(token), head.q.dtype, K, padded, buffer);
  }
  HWY_INLINE const float* k_row(std::int64_t token, float* HWY_RESTRICT buffer) const {
    return as_floats(head.k.at(token), head.k.dtype, K, padded, buffer);
  }

  // What the row has to be multiplied with to have the length that the call asks for.
  HWY_INLINE float norm_factor(const float* HWY_RESTRICT row) const {
    if (!call.l2norm) return 1.f;
    const DF d;
    const std::size_t N = hn::Lanes(d);
    VF even = hn::Zero(d), odd = hn::Zero(d);
    std::size_t c = 0;
    for (; c + 2 * N <= padded; c += 2 * N) {
      const VF x = hn::LoadU(d, row + c), y = hn::LoadU(d, row + c + N);
      even = hn::MulAdd(x, x, even);
      odd = hn::MulAdd(y, y, odd);
    }
    if (c < padded) {
      const VF x = hn::LoadU(d, row + c);
      even = hn::MulAdd(x, x, even);
    }
    return 1.f / std::sqrt(sum_lanes(d, hn::Add(even, odd)) + 1e-6f);
  }

  // beta of `count` tokens; `to` is aligned and has room for whole vectors.
  HWY_INLINE void betas(std::int64_t token, std::size_t count, float* HWY_RESTRICT to) const {
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = scalar_at(head.beta.at(token + static_cast<std::int64_t>(i)), head.beta.dtype);
    }
    if (!call.beta_sigmoid) return;
    const DF d;
    const std::size_t N = hn::Lanes(d);
    for (std::size_t i = count; i < round_up(count, N); ++i) to[i] = 0.f;
    for (std::size_t i = 0; i < count; i += N) {
      const VF b = sigmoid2(d, hn::Mul(hn::Load(d, to + i), hn::Set(d, kLog2e)));
      hn::Store(hn::Mul(b, hn::Set(d, call.neg_eigval ? 2.f : 1.f)), d, to + i);
    }
  }
};

// What a token's output is divided by in a call that normalizes: scale q^T z + 1e-10. z, the sum of the keys
// so far, takes the token's own first. q and k are multiplied by their factors, q's with the scale in it.
HWY_INLINE float divisor_of(DF d, const float* HWY_RESTRICT q, const float* HWY_RESTRICT k, float q_factor,
                            float k_factor, std::size_t padded, float* HWY_RESTRICT z) {
  const std::size_t N = hn::Lanes(d);
  const VF k_factors = hn::Set(d, k_factor);
  VF sum = hn::Zero(d);
  for (std::size_t c = 0; c < padded; c += N) {
    const VF zc = hn::MulAdd(hn::LoadU(d, k + c), k_factors, hn::Load(d, z + c));
    hn::Store(zc, d, z + c);
    sum = hn::MulAdd(hn::LoadU(d, q + c), zc, sum);
  }
  return q_factor * sum_lanes(d, sum) + 1e-10f;
}

HWY_INLINE void divide_row(DF d, float* row, std::size_t count, float divisor) {
  const std::size_t N = hn::Lanes(d);
  const VF divisors = hn::Set(d, divisor);
  std::size_t c = 0;
  for (; c + N <= count; c += N) hn::StoreU(hn::Div(hn::LoadU(d, row + c), divisors), d, row + c);
  for (; c < count; ++c) row[c] /= divisor;
}

// dt_bias of a head as a padded row of floats; null when the call has none.
HWY_INLINE const float* bias_row(const Head& head, std::size_t K, std::size_t padded,
                                 float* HWY_RESTRICT buffer) {
  if (head.dt_bias.data == nullptr) return nullptr;
  for (std::size_t c = 0; c < K; ++c) {
    const std::int64_t at = static_cast<std::int64_t>(c) * head.dt_bias.channel;
    buffer[c] = scalar_at(head.dt_bias.data, head.dt_bias.dtype, at);
  }
  for (std::size_t c = K; c < padded; ++c) buffer[c] = 0.f;
  return buffer;
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
