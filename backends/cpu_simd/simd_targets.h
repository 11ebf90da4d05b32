// Which of Highway's targets the kernels are compiled for. Comes before any header of Highway.
#pragma once

// SVE of 256 bits alone: the kernels keep arrays of vectors, which need a size that the compiler knows. 128
// bits are what NEON has, and machines with more than 256 run NEON too. Neither for clang, which has no
// run-time choice on Arm in Highway, nor where the whole build may use SVE: there it would take the place of
// NEON on machines of any length.
#if defined(__aarch64__) && !defined(__clang__) && !defined(__ARM_FEATURE_SVE)
#define FLA_WITHOUT_SVE_256 0
#else
#define FLA_WITHOUT_SVE_256 HWY_SVE_256
#endif

// 128-bit x86 is left out as well: the tiles have too few registers there, and the machines are gone.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE2_128 | FLA_WITHOUT_SVE_256)
