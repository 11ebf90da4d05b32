#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu_simd/kernels.h"

namespace fla::cpu_simd {

/// A SIMD target that this build has kernels for and this machine can run.
struct Target {
  std::int64_t id;        ///< one of Highway's HWY_NEON, HWY_AVX2, ...
  std::string_view name;  ///< as Highway calls it: "NEON", "AVX2", "AVX3", ...
  const ChunkKernel* chunk;
  const RecurrentKernel* recurrent;
  const ReplayKernel* replay;
  const BackwardKernel* backward;
};

/// Those targets, the fastest first. Empty when there is none.
const std::vector<Target>& supported_targets();

/// The supported target called `name`, whatever its case; null when there is none.
const Target* target_called(std::string_view name);

/// "NEON", or "AVX3, AVX2".
std::string target_names();

}  // namespace fla::cpu_simd
