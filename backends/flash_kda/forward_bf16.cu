#include "backends/flash_kda/forward.cuh"
#include "backends/flash_kda/launch.cuh"
#include "backends/flash_kda/segment.cuh"

namespace fla::flash_kda {

cudaError_t launch_forward_bf16(const Launch& launch, const Params& params) {
  static std::atomic<std::uint64_t> prepared{0};
  return launch_kernel(forward_kernel<Half16::bf16>, prepared, kThreads, kSharedBytes, launch, params);
}

cudaError_t launch_part_bf16(const Launch& launch, const Params& params) {
  static std::atomic<std::uint64_t> prepared{0};
  return launch_kernel(part_kernel<Half16::bf16>, prepared, Part::threads, Part::bytes + 1024, launch,
                       params);
}

}  // namespace fla::flash_kda
