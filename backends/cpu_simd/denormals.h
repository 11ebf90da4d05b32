#pragma once

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

namespace fla::cpu_simd {

/// While it lives, this thread's SIMD arithmetic takes denormal numbers for zero and rounds to zero instead
/// of to one: a state that decays for long goes through them, and on x86 each operation on one costs a
/// hundred others.
class DenormalsAreZero {
 public:
#if defined(__x86_64__) || defined(__i386__)
  DenormalsAreZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
  ~DenormalsAreZero() { _mm_setcsr(before_); }
#else
  DenormalsAreZero() {}
  ~DenormalsAreZero() {}
#endif
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

#if defined(__x86_64__) || defined(__i386__)
 private:
  unsigned before_;
#endif
};

}  // namespace fla::cpu_simd
