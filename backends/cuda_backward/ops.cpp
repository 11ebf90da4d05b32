#include "fla/ops/ops.h"

#include "backends/cuda_backward/backward.h"
#include "backends/cuda_backward/verifier.h"
#include "fla/core/cuda_error.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/recurrence/call_of.h"

namespace fla::cuda_backward {
namespace {

RecurrenceGradients run(const recurrence::BackwardArguments& args) {
  const Device device = args.call.q.device();
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.call.workspace, workspace_bytes(call_of(args, {})), device,
                                args.call.stream);
  RecurrenceGradients result = recurrence::make_result(args);
  check_cuda(
      launch(recurrence::call_of(args, result), workspace.data(), find_cuda_device(device)->multiprocessors,
             static_cast<cudaStream_t>(args.call.stream.handle)),
      "launching cuda_backward", BackendError::Wrote::maybe);
  return result;
}

/// What the backend has whichever op it serves; Backend is the op's class.
template <class Backend>
class CudaBackward : public Backend {
 public:
  using Args = typename Backend::Args::Backward;

  BackendInfo info() const override {
    return {.name = "cuda_backward",
            .package = "CUDA",
            .env_var = "FLA_CUDA_BACKWARD",
            .default_enable = true,
            .priority = 2,
            .doc = "gradients on tensor cores, bf16 and f16, K and V of 64 or 128, normalized keys; sm_90",
            .precision = DType::bf16,
            .batch_invariant = true};
  }

  Availability is_available() const override { return cuda::available_on(kDevices); }

  std::size_t backward_workspace_size(std::string_view, const Args& args) const override {
    return workspace_bytes(call_of(args, {}));
  }

 protected:
  Verdict verify_call(const Args& args) const {
    FLA_VERIFY(verify(args, find_cuda_device(args.q.device())));
    return cuda::verify_workspace(args.workspace, workspace_bytes(call_of(args, {})));
  }
};

#define FLA_CUDA_BACKWARD(OP, NAME)                                                         \
  class CudaBackward##NAME final : public CudaBackward<NAME##Backend> {                     \
   public:                                                                                  \
    Verdict chunk_##OP##_backward_verifier(const NAME##BackwardArgs& args) const override { \
      return verify_call(args);                                                             \
    }                                                                                       \
    RecurrenceGradients chunk_##OP##_backward(const NAME##BackwardArgs& args) override {    \
      return run(recurrence::backward_arguments_of(args));                                  \
    }                                                                                       \
  };                                                                                        \
  FLA_REGISTER_BACKEND(OP, cuda_backward, CudaBackward##NAME)

FLA_CUDA_BACKWARD(kda, Kda);
FLA_CUDA_BACKWARD(gated_delta_rule, GatedDeltaRule);

}  // namespace
}  // namespace fla::cuda_backward
