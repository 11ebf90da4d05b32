// What reads a state for a token and does not write it, and what brings a token's rows. Included once for
// every SIMD target.

#if defined(FLA_BACKENDS_CPU_SIMD_READ_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_READ_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_READ_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_READ_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "backends/cpu_simd/head.h"
#include "backends/cpu_simd/step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr int kReadVectors = kTileRows == 4 ? 4 : 8;  // of columns; twice that many accumulators
constexpr int kStretch = kTileRows / 2;               // vectors of a row that are read or written together

// What a step with rank 2 has besides: the pair, and q . b.
inline HWY_NOINLINE void prepare_pair(DF d, const float* HWY_RESTRICT q, float q_factor,
                                      const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                                      std::size_t padded, Step& step) {
  const std::size_t N = hn::Lanes(d);
  const VF q_factors = hn::Set(d, q_factor);
  float *HWY_RESTRICT probe = step.probe, *HWY_RESTRICT kept_b = step.b;
  VF even = hn::Zero(d), odd = hn::Zero(d);
  const auto channels_at = [&](std::size_t c, VF& qb) HWY_ATTR {
    const VF bc = hn::LoadU(d, b + c);
    hn::Store(hn::LoadU(d, a + c), d, probe + c);
    hn::Store(bc, d, kept_b + c);
    qb = hn::MulAdd(hn::Mul(hn::LoadU(d, q + c), q_factors), bc, qb);
  };
  std::size_t c = 0;
  for (; c + 2 * N <= padded; c += 2 * N) {
    channels_at(c, even);
    channels_at(c + N, odd);
  }
  if (c < padded) channels_at(c, even);
  step.qb = sum_lanes(d, hn::Add(even, odd));
}

// First pass over four rows, of which `present` are there: every row has accumulators of its own, summed over
// their lanes at the end. Writes u and the output. Goes through kStretch vectors of a row before it turns to
// the next one: rows lie a power of two apart, and loads from the same place in many rows get in each other's
// way.
template <int kRank>
HWY_INLINE void read_rows(DF d, const Step& step, const float* from, std::size_t K, std::size_t present,
                          const float* v, float* HWY_RESTRICT u, float* out, Ahead& ahead) {
  constexpr int kSums = kStretch / 2;  // accumulators of a row, in turn
  const float* rows[4];
  FLA_UNROLL for (int i = 0; i < 4; ++i) {
    rows[i] = from + std::min(static_cast<std::size_t>(i), present - 1) * K;
  }
  VF p[4][kSums], r[4][kSums];
  FLA_UNROLL for (int i = 0; i < 4; ++i) {
    FLA_UNROLL for (int n = 0; n < kSums; ++n) p[i][n] = r[i][n] = hn::Zero(d);
  }
  Ahead lines = ahead;
  std::size_t k = 0;
  for (; k + kStretch * kLanes <= K; k += kStretch * kLanes) {
    const float *probe = opaque(step.probe + k), *decayed_q = opaque(step.decayed_q + k);
    VF xc[kStretch], qc[kStretch];
    FLA_UNROLL for (int n = 0; n < kStretch; ++n) {
      xc[n] = hn::Load(d, probe + n * kLanes);
      qc[n] = hn::Load(d, decayed_q + n * kLanes);
    }
    lines.touch<2 * kStretch * kLanes>();
    FLA_UNROLL for (int i = 0; i < 4; ++i) {
      const float* row = opaque(rows[i] + k);
      VF s[kStretch];
      FLA_UNROLL for (int n = 0; n < kStretch; ++n) s[n] = hn::LoadU(d, row + n * kLanes);
      FLA_UNROLL for (int n = 0; n < kStretch; ++n) {
        p[i][n % kSums] = hn::MulAdd(s[n], xc[n], p[i][n % kSums]);
        r[i][n % kSums] = hn::MulAdd(s[n], qc[n], r[i][n % kSums]);
      }
    }
  }
  ahead = lines;
  for (; k < K; k += kLanes) {
    const std::size_t here = std::min<std::size_t>(kLanes, K - k);
    const VF xc = hn::Load(d, step.probe + k), qc = hn::Load(d, step.decayed_q + k);
    FLA_UNROLL for (int i = 0; i < 4; ++i) {
      const VF s = load_first(d, rows[i] + k, here);
      p[i][0] = hn::MulAdd(s, xc, p[i][0]);
      r[i][0] = hn::MulAdd(s, qc, r[i][0]);
    }
  }
  FLA_UNROLL for (int i = 0; i < 4; ++i) {
    FLA_UNROLL for (int n = 1; n < kSums; ++n) {
      p[i][0] = hn::Add(p[i][0], p[i][n]);
      r[i][0] = hn::Add(r[i][0], r[i][n]);
    }
  }

  const D4 d4;
  HWY_ALIGN float values[4] = {}, outputs[4];
  std::memcpy(values, v, present * sizeof(float));
  const V4 v4 = hn::Load(d4, values);
  const V4 p4 = sums_of_lanes(d, p[0][0], p[1][0], p[2][0], p[3][0]);
  const V4 r4 = sums_of_lanes(d, r[0][0], r[1][0], r[2][0], r[3][0]);
  const V4 u4 = u_of<kRank>(d4, step, p4, step.weight, v4);
  hn::Store(u4, d4, u);
  hn::Store(output_of<kRank>(d4, step, r4, u4, v4), d4, outputs);
  std::memcpy(out, outputs, present * sizeof(float));
}

HWY_INLINE void prefetch_row(const Head::Input& input, std::int64_t token, std::size_t count) {
  const std::size_t bytes = count * size_of(input.dtype);
  for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(input.at(token) + i, 0, 2);
}

HWY_INLINE void prefetch_token(const Head& head, std::int64_t token, std::size_t K, std::size_t V) {
  prefetch_row(head.q, token, K);
  prefetch_row(head.k, token, K);
  prefetch_row(head.g, token, head.gates);
  prefetch_row(head.v, token, V);
  if (head.a.row == nullptr) return;
  prefetch_row(head.a, token, K);
  prefetch_row(head.b, token, K);
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
