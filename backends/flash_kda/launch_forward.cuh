#pragma once

#include "backends/flash_kda/forward.cuh"
#include "backends/flash_kda/launch.cuh"
#include "backends/flash_kda/segment.cuh"

namespace fla::flash_kda {

template <Half16 type, GateKind kind, Rule rule>
cudaError_t launch_forward(const Launch& launch, const Params& params) {
  static std::atomic<std::uint64_t> prepared{0};
  return launch_kernel(forward_kernel<type, kind, rule>, prepared, kThreads, kSharedBytes, launch, params);
}

template <Half16 type, Rule rule>
cudaError_t launch_part(const Launch& launch, const Params& params) {
  static std::atomic<std::uint64_t> prepared{0};
  return launch_kernel(part_kernel<type, rule>, prepared, Part::threads, Part::bytes + 1024, launch, params);
}

}  // namespace fla::flash_kda
