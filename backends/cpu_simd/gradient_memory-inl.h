// The backward kernel's working memory, and rows in it; backward.cpp has the names. Included once for every
// SIMD target.

#if defined(FLA_BACKENDS_CPU_SIMD_GRADIENT_MEMORY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLA_BACKENDS_CPU_SIMD_GRADIENT_MEMORY_INL_H_
#undef FLA_BACKENDS_CPU_SIMD_GRADIENT_MEMORY_INL_H_
#else
#define FLA_BACKENDS_CPU_SIMD_GRADIENT_MEMORY_INL_H_
#endif

#include <algorithm>

#include "backends/cpu_simd/carver.h"
#include "backends/cpu_simd/gradient_token_pairs-inl.h"
#include "fla/ops/recurrence/call.h"

HWY_BEFORE_NAMESPACE();
namespace fla::cpu_simd {
namespace HWY_NAMESPACE {

constexpr std::int64_t kStretch = 512;
static_assert(kStretch % kTokens == 0);

inline std::int64_t stretches_of(std::int64_t tokens) { return (tokens + kStretch - 1) / kStretch; }

// ---- Working memory

struct KeptChunk {
  float *start, *decay, *M, *L, *U, *Z, *beta;
};

struct GradientMemory {
  Sizes size;
  float *kept, *kept_states;                // of stretches
  float *q_sums, *k_sums;                   // [tokens][row], of a group of value heads
  float *q, *k, *l;                         // [kTokens][row]
  float *F, *G, *Qd_N, *Kr;                 // the same; Qd_N has twice as many rows
  float *dQd_dN, *dKr, *dq, *dk, *dg, *dl;  // the same
  float* operand;                           // [channels][kTokens]
  float *turned, *dM, *dL;                  // [kTokens][kTokens]
  float *E_dZ, *dY;                         // [panel][2 kTokens][kWidth], [panel][kTokens][kWidth]
  float *turned_E_dZ, *turned_U;            // [columns][2 kTokens], [columns][kTokens]
  float *dS, *gamma, *state_shares, *ones, *zeros, *bias;
  float *row, *gate_row, *pairs, *M_sums, *L_sums, *dbeta, *dg_shares, *q_factor, *k_factor;
  std::size_t chunk_floats;

  GradientMemory(Carver& carver, const RecurrenceCall& call, std::int64_t tokens) : size(call.K, call.V) {
    constexpr std::size_t C = kTokens;
    const std::size_t rows = C * size.row;
    chunk_floats = kept_floats();
    kept = carver.take(static_cast<std::size_t>(chunks_of(tokens)) * chunk_floats);
    kept_states =
        carver.take(static_cast<std::size_t>(std::max<std::int64_t>(stretches_of(tokens), 1)) * size.state);
    const std::size_t sums = call.group > 1 ? static_cast<std::size_t>(tokens) * size.row : 0;
    for (float** to : {&q_sums, &k_sums}) *to = carver.take(sums);
    for (float** to : {&q, &k, &l, &F, &G, &Kr, &dKr, &dq, &dk, &dg, &dl}) *to = carver.take(rows);
    for (float** to : {&Qd_N, &dQd_dN}) *to = carver.take(2 * rows);
    operand = carver.take(C * size.channels);
    for (float** to : {&dM, &dL}) *to = carver.take(C * C);
    turned = carver.take(2 * C * C);
    E_dZ = carver.take(2 * C * size.columns);
    dY = carver.take(C * size.columns);
    turned_E_dZ = carver.take(2 * C * size.columns);
    turned_U = carver.take(C * size.columns);
    dS = carver.take(size.state);
    const std::size_t widest = std::max(size.row, size.columns);
    for (float** to : {&gamma, &state_shares, &ones, &zeros, &bias, &row, &gate_row})
      *to = carver.take(widest);
    pairs = carver.take(C * kRun * 2 * kLanes);
    for (float** to : {&M_sums, &L_sums}) *to = carver.take(PairSums::kFloats);
    for (float** to : {&dbeta, &dg_shares, &q_factor, &k_factor}) *to = carver.take(C);
    if (!dS) return;  // it is only counted
    std::fill_n(ones, widest, 1.f);
    std::fill_n(zeros, widest, 0.f);
  }

  KeptChunk chunk(std::int64_t i) const {
    Carver carver(kept + static_cast<std::size_t>(i) * chunk_floats);
    return take_chunk(carver);
  }

 private:
  static std::int64_t chunks_of(std::int64_t tokens) {
    return (std::min(tokens, kStretch) + kTokens - 1) / kTokens;
  }
  std::size_t kept_floats() const {
    Carver carver(nullptr);
    take_chunk(carver);
    return carver.used();
  }
  KeptChunk take_chunk(Carver& carver) const {
    constexpr std::size_t C = kTokens;
    KeptChunk chunk;
    chunk.start = carver.take(size.state);
    chunk.decay = carver.take(C * size.row);
    for (float** to : {&chunk.M, &chunk.L}) *to = carver.take(C * C);
    for (float** to : {&chunk.U, &chunk.Z}) *to = carver.take(C * size.columns);
    chunk.beta = carver.take(C);
    return chunk;
  }
};

// ---- Rows

HWY_INLINE float* row_at(float* rows, int i, std::size_t row) {
  return rows + static_cast<std::size_t>(i) * row;
}

// to = factor from
HWY_INLINE void scale_row(DF d, const float* from, float factor, std::size_t count, float* to) {
  const VF factors = hn::Set(d, factor);
  for (std::size_t c = 0; c < count; c += kLanes)
    hn::Store(hn::Mul(factors, hn::LoadU(d, from + c)), d, to + c);
}

// The largest absolute values so far, and those of a row.
HWY_INLINE VF largest_of(DF d, const float* row, std::size_t count, VF most) {
  for (std::size_t c = 0; c < count; c += kLanes) most = hn::Max(most, hn::Abs(hn::LoadU(d, row + c)));
  return most;
}

HWY_INLINE float dot_row(DF d, const float* left, const float* right, std::size_t count) {
  VF even = hn::Zero(d), odd = hn::Zero(d);
  for (std::size_t c = 0; c < count; c += 2 * kLanes) {
    even = hn::MulAdd(hn::Load(d, left + c), hn::Load(d, right + c), even);
    odd = hn::MulAdd(hn::Load(d, left + c + kLanes), hn::Load(d, right + c + kLanes), odd);
  }
  return sum_lanes(d, hn::Add(even, odd));
}

// Row i of `rows` rows in every panel.
HWY_INLINE void to_panels(DF d, const float* from, float factor, std::size_t panels, int i, int rows,
                          float* to) {
  const VF factors = hn::Set(d, factor);
  for (std::size_t p = 0; p < panels; ++p) {
    float* place = to + (p * static_cast<std::size_t>(rows) + static_cast<std::size_t>(i)) * kWidth;
    for (std::size_t c = 0; c < kWidth; c += kLanes)
      hn::Store(hn::Mul(factors, hn::LoadU(d, from + p * kWidth + c)), d, place + c);
  }
}
HWY_INLINE void from_panels(DF d, const float* from, std::size_t panels, int i, int rows, float* to) {
  for (std::size_t p = 0; p < panels; ++p) {
    const float* place = from + (p * static_cast<std::size_t>(rows) + static_cast<std::size_t>(i)) * kWidth;
    for (std::size_t c = 0; c < kWidth; c += kLanes)
      hn::Store(hn::Load(d, place + c), d, to + p * kWidth + c);
  }
}

HWY_INLINE void prefetch_floats(const float* from, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) __builtin_prefetch(from + i, 0, 2);
}

}  // namespace HWY_NAMESPACE
}  // namespace fla::cpu_simd
HWY_AFTER_NAMESPACE();

#endif
