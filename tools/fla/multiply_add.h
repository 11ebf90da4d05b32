#pragma once

#include <cstdint>

namespace fla::command {

/// Loops of nothing but multiply-adds for one SIMD target. `run` does `iterations` of one variant and returns
/// a number that depends on all of them.
struct MultiplyAddLoops {
  double (*run)(int variant, std::int64_t iterations);
  int variants;
  double operations_per_iteration;
};

/// Null when this build has none for the target (one of Highway's HWY_NEON, HWY_AVX2, …).
const MultiplyAddLoops* multiply_add_loops(std::int64_t target);

}  // namespace fla::command
