// From one of Highway's targets to its kernel, for the files that define kernels, behind HWY_ONCE.
#pragma once

#include <hwy/highway.h>

#include <cstdint>

#if HWY_TARGETS & HWY_NEON
#define FLA_CASE_NEON(kernel) \
  case HWY_NEON:              \
    return &N_NEON::kernel;
#else
#define FLA_CASE_NEON(kernel)
#endif

#if HWY_TARGETS & HWY_SVE_256
#define FLA_CASE_SVE_256(kernel) \
  case HWY_SVE_256:              \
    return &N_SVE_256::kernel;
#else
#define FLA_CASE_SVE_256(kernel)
#endif

#if HWY_TARGETS & HWY_AVX2
#define FLA_CASE_AVX2(kernel) \
  case HWY_AVX2:              \
    return &N_AVX2::kernel;
#else
#define FLA_CASE_AVX2(kernel)
#endif

#if HWY_TARGETS & HWY_AVX3
#define FLA_CASE_AVX3(kernel) \
  case HWY_AVX3:              \
    return &N_AVX3::kernel;
#else
#define FLA_CASE_AVX3(kernel)
#endif

#define FLA_TARGET_CASES(kernel) \
  FLA_CASE_NEON(kernel) FLA_CASE_SVE_256(kernel) FLA_CASE_AVX2(kernel) FLA_CASE_AVX3(kernel)

// Defines `function`, which returns `kernel` of the target's namespace; null where this build has none.
#define FLA_DEFINE_KERNEL_OF_TARGET(Kernel, function, kernel) \
  const Kernel* function(std::int64_t target) {               \
    switch (target) {                                         \
      FLA_TARGET_CASES(kernel)                                \
      default: return nullptr;                                \
    }                                                         \
  }
