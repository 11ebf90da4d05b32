// Which of Highway's targets the kernels are compiled for. Comes before any header of Highway.
#pragma once

// Left out: 128-bit x86, where the tiles have too few registers and the machines are gone.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
