#include "fla/ops/kda/kda_cuda.h"

#include <algorithm>
#include <limits>
#include <string>

#include "fla/core/cuda_devices.h"
#include "fla/core/errors.h"

#ifdef FLA_HAS_CUDA
#include "fla/core/cuda_error.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/kda/call_of.h"
#include "fla/ops/kda/cuda/kda_call.h"
#endif

namespace fla {
namespace {

constexpr int kOldestArchitecture = 80;

void check_device(Device device) {
  const auto devices = cuda_devices();
  if (devices.empty()) {
    throw InvalidArgument(
        "q", "expected device cpu, got " + to_string(device) + ": " + std::string(why_no_cuda_device()));
  }
  const CudaDevice* found = find_cuda_device(device);
  if (found == nullptr) {
    const std::string last =
        to_string(Device{DeviceType::cuda, static_cast<std::int16_t>(devices.size() - 1)});
    throw InvalidArgument("q", "expected device " +
                                   (devices.size() == 1 ? std::string("cuda:0") : "cuda:0 to " + last) +
                                   ", got " + to_string(device));
  }
  if (found->architecture() < kOldestArchitecture) {
    throw InvalidArgument("q", "expected a device of compute capability 8.0 or above, got " +
                                   to_string(device) + ", " + found->name + ", with " +
                                   std::to_string(found->major) + "." + std::to_string(found->minor));
  }
}

}  // namespace

#ifdef FLA_HAS_CUDA

namespace {

/// Grids are cut into heads of sequences, 32 values a block.
void check_grid(const KdaArgs& args) {
  const KdaSizes sizes = sizes_of(args);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t heads = sizes.N * sizes.HV, most = kMost / ((sizes.V + 31) / 32);
  if (heads > most) {
    throw InvalidArgument("v", "expected at most " + std::to_string(most) +
                                   " heads of V=" + std::to_string(sizes.V) +
                                   " in all sequences on a CUDA device, got " + std::to_string(heads));
  }
}

struct Kernel {
  const char* doing;
  std::size_t (*workspace)(const RecurrenceCall& call);
  cudaError_t (*launch)(const RecurrenceCall& call, void* workspace, cudaStream_t stream);
};
constexpr Kernel kChunk{"launching chunk_kda", cuda::chunk_workspace, cuda::launch_chunk};
constexpr Kernel kRecurrent{"launching fused_recurrent_kda", cuda::recurrent_workspace,
                            cuda::launch_recurrent};

KdaResult run(const KdaArgs& args, const Kernel& kernel) {
  const Device device = args.q.device();
  check_device(device);
  check_grid(args);
  if (args.v.numel() == 0 && !args.final_state.defined() && !args.output_final_state)
    return make_result(args);
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.workspace, kernel.workspace(call_of(args, {})), device, args.stream);
  KdaResult result = make_result(args);
  check_cuda(
      kernel.launch(call_of(args, result), workspace.data(), static_cast<cudaStream_t>(args.stream.handle)),
      kernel.doing, BackendError::Wrote::nothing);
  return result;
}

}  // namespace

KdaResult chunk_kda_cuda(const KdaArgs& args) { return run(args, kChunk); }
KdaResult recurrent_kda_cuda(const KdaArgs& args) { return run(args, kRecurrent); }

std::size_t workspace_size_cuda(const KdaArgs& args) {
  check_device(args.q.device());
  check_grid(args);
  const RecurrenceCall call = call_of(args, {});
  return std::max(cuda::chunk_workspace(call), cuda::recurrent_workspace(call));
}

#else

namespace {

[[noreturn]] void refuse(Device device) {
  check_device(device);
  throw BackendError(std::string(why_no_cuda_device()), BackendError::Wrote::nothing);
}

}  // namespace

KdaResult chunk_kda_cuda(const KdaArgs& args) { refuse(args.q.device()); }
KdaResult recurrent_kda_cuda(const KdaArgs& args) { refuse(args.q.device()); }
std::size_t workspace_size_cuda(const KdaArgs& args) { refuse(args.q.device()); }

#endif

}  // namespace fla
