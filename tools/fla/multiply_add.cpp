#include "tools/fla/multiply_add.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/fla/multiply_add.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fla::command {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Enough independent chains to fill two to four pipelines of four or five cycles, few enough to stay in
// registers: 24 of 32, or 12 of 16 on AVX2 and older.
#define FLA_TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define FLA_TWELVE_MORE(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#if HWY_TARGET >= HWY_AVX2 && HWY_ARCH_X86
#define FLA_CHAINS(X) FLA_TWELVE(X)
constexpr int kChains = 12;
#else
#define FLA_CHAINS(X) FLA_TWELVE(X) FLA_TWELVE_MORE(X)
constexpr int kChains = 24;
#endif

using Tag = hn::ScalableTag<float>;

// The variants differ in where the sources come from (loaded, or made from a constant) and in which operand
// is the chain's: see MultiplyAddRate.
template <int kVariant>
HWY_NOINLINE double Loop(std::int64_t iterations) {
  const Tag d;
  HWY_ALIGN static volatile float seeds[4] = {0.001f, 0.5f, 0.25f, 0.002f};
#define FLA_START(i) auto a##i = hn::Set(d, seeds[(i) % 4]);
  FLA_CHAINS(FLA_START)
#undef FLA_START
  const float from_memory = seeds[1];
  const auto x = kVariant % 2 == 0 ? hn::Set(d, from_memory) : hn::Set(d, 0.5f);
  const auto y = kVariant % 2 == 0 ? hn::Set(d, seeds[0]) : hn::Set(d, 0.001f);
  for (std::int64_t n = 0; n < iterations; ++n) {
    if constexpr (kVariant < 2) {
#define FLA_STEP(i) a##i = hn::MulAdd(x, y, a##i);
      FLA_CHAINS(FLA_STEP)
      FLA_CHAINS(FLA_STEP)
#undef FLA_STEP
    } else {
#define FLA_STEP(i) a##i = hn::MulAdd(a##i, x, y);
      FLA_CHAINS(FLA_STEP)
      FLA_CHAINS(FLA_STEP)
#undef FLA_STEP
    }
  }
  auto sum = hn::Zero(d);
#define FLA_ADD(i) sum = hn::Add(sum, a##i);
  FLA_CHAINS(FLA_ADD)
#undef FLA_ADD
  return static_cast<double>(hn::GetLane(sum));
}

double Run(int variant, std::int64_t iterations) {
  switch (variant) {
    case 0: return Loop<0>(iterations);
    case 1: return Loop<1>(iterations);
    case 2: return Loop<2>(iterations);
    default: return Loop<3>(iterations);
  }
}

const MultiplyAddLoops* Loops() {
  static const MultiplyAddLoops loops{&Run, 4, 2.0 * 2 * kChains * static_cast<double>(hn::Lanes(Tag()))};
  return &loops;
}

#undef FLA_CHAINS
#undef FLA_TWELVE
#undef FLA_TWELVE_MORE
}  // namespace HWY_NAMESPACE
}  // namespace fla::command
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fla::command {

const MultiplyAddLoops* multiply_add_loops(std::int64_t target) {
  switch (target) {
#if HWY_TARGETS & HWY_NEON
    case HWY_NEON: return N_NEON::Loops();
#endif
#if HWY_TARGETS & HWY_SVE
    case HWY_SVE: return N_SVE::Loops();
#endif
#if HWY_TARGETS & HWY_SVE2
    case HWY_SVE2: return N_SVE2::Loops();
#endif
#if HWY_TARGETS & HWY_SVE_256
    case HWY_SVE_256: return N_SVE_256::Loops();
#endif
#if HWY_TARGETS & HWY_SVE2_128
    case HWY_SVE2_128: return N_SVE2_128::Loops();
#endif
#if HWY_TARGETS & HWY_SSE4
    case HWY_SSE4: return N_SSE4::Loops();
#endif
#if HWY_TARGETS & HWY_AVX2
    case HWY_AVX2: return N_AVX2::Loops();
#endif
#if HWY_TARGETS & HWY_AVX3
    case HWY_AVX3: return N_AVX3::Loops();
#endif
    default: return nullptr;
  }
}

}  // namespace fla::command
#endif
