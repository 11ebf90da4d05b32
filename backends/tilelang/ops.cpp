#include "fla/ops/kda/kda.h"

#include <string>

#include "backends/tilelang/tilelang.h"
#include "backends/tilelang/verifier.h"
#include "fla/core/cuda_devices.h"
#include "fla/core/cuda_error.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/recurrence/call_of.h"

namespace fla::tilelang {
namespace {

class TileLangKda final : public KdaBackend {
 public:
  BackendInfo info() const override {
    return {
        .name = "tilelang",
        .package = "TileLang",
        .env_var = "FLA_TILELANG",
        .default_enable = true,
        .priority = 4,
        .doc =
            "chunked prefill by kernels written in TileLang and compiled ahead of time, bf16 and f16, K=64, "
            "128 or 256, any V in 64s, f32 states; sm_90",
        .precision = DType::f16};
  }

  Availability is_available() const override {
    if (const std::string_view why = why_not_built(); !why.empty()) return Availability::no(std::string(why));
    return cuda::available_on(kDevices);
  }

  std::size_t workspace_size(std::string_view, const KdaArgs& args) const override {
    return workspace(call_of(args, {}));
  }

  std::string route(std::string_view, const KdaArgs& args) const override {
    return instances_of(call_of(args, {}));
  }

  Verdict chunk_kda_verifier(const KdaArgs& args) const override {
    const Verdict verdict = verify(args, find_cuda_device(args.q.device()));
    if (!verdict.ok() || args.workspace.data == nullptr) return verdict;
    return cuda::verify_workspace(args.workspace, workspace(call_of(args, {})));
  }

  KdaResult chunk_kda(const KdaArgs& args) override {
    const Device device = args.q.device();
    const CurrentDevice current(device.index);
    const CallWorkspace memory(args.workspace, workspace(call_of(args, {})), device, args.stream);
    KdaResult result = make_result(args);
    check_cuda(launch(call_of(args, result), memory.data(), static_cast<cudaStream_t>(args.stream.handle)),
               "launching tilelang", BackendError::Wrote::nothing);
    return result;
  }
};

FLA_REGISTER_BACKEND(kda, tilelang, TileLangKda);

}  // namespace
}  // namespace fla::tilelang
