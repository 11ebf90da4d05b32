#include "fla/ops/kda/kda.h"

#include <string>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/verifier.h"
#include "fla/core/cuda_devices.h"
#include "fla/core/cuda_error.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/recurrence/call_of.h"

namespace fla::cuda_decode {
namespace {

class CudaDecodeKda final : public KdaBackend {
 public:
  BackendInfo info() const override {
    return {
        .name = "cuda_decode",
        .package = "CUDA",
        .env_var = "FLA_CUDA_DECODE",
        .default_enable = true,
        .priority = 2,
        .doc = "one-token steps at memory speed, in place, on a pool of f32 or bf16 states; sm_80 and up"};
  }

  Availability is_available() const override { return cuda::available_on(kDevices); }

  std::size_t workspace_size(std::string_view, const KdaArgs& args) const override {
    return workspace_bytes(args);
  }

  Verdict fused_recurrent_kda_verifier(const KdaArgs& args) const override {
    return verify(args, find_cuda_device(args.q.device()));
  }

  KdaResult fused_recurrent_kda(const KdaArgs& args) override {
    const Device device = args.q.device();
    const CurrentDevice current(device.index);
    const CallWorkspace workspace(args.workspace, workspace_bytes(args), device, args.stream);
    KdaResult result = make_result(args);
    const bool early = find_cuda_device(device)->architecture() >= 90;
    const cudaError_t error = cuda::launch_decode(call_of(args, result), workspace.data(), early,
                                                  static_cast<cudaStream_t>(args.stream.handle));
    // One launch either ran or did not; of several, the first ones may have.
    const bool one_launch = args.q.size(0) <= cuda::kMostBlocks;
    check_cuda(error, "launching cuda_decode",
               one_launch ? BackendError::Wrote::nothing : BackendError::Wrote::maybe);
    return result;
  }
};

FLA_REGISTER_BACKEND(kda, cuda_decode, CudaDecodeKda);

}  // namespace
}  // namespace fla::cuda_decode
