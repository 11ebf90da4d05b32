#include "fla/ops/ops.h"

#include <string>

#include "backends/cuda_decode/decode.h"
#include "backends/cuda_decode/verifier.h"
#include "fla/core/cuda_devices.h"
#include "fla/core/cuda_error.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/recurrence/call_of.h"
#include "fla/ops/step/call_of.h"

namespace fla::cuda_decode {
namespace {

/// One launch either ran or did not; of several, the first ones may have.
BackendError::Wrote wrote_by(std::int64_t sequences) {
  return sequences <= cuda::kMostBlocks ? BackendError::Wrote::nothing : BackendError::Wrote::maybe;
}

RecurrenceResult run(const recurrence::Arguments& args) {
  const Device device = args.q.device();
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.workspace, workspace_bytes(args), device, args.stream);
  RecurrenceResult result = make_result(args);
  const bool early = find_cuda_device(device)->architecture() >= 90;
  const cudaError_t error =
      cuda::launch_decode(call_of(args, result), recurrence::extras_of(args), workspace.data(), early,
                          static_cast<cudaStream_t>(args.stream.handle));
  check_cuda(error, "launching cuda_decode", wrote_by(args.q.size(0)));
  return result;
}

ReplayResult run(const recurrence::ReplayArguments& args) {
  const Device device = args.state.device();
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.call.workspace, workspace_bytes(args), device, args.call.stream);
  ReplayResult result = make_result(args);
  const bool early = find_cuda_device(device)->architecture() >= 90;
  const cudaError_t error = cuda::launch_replay_step(call_of(args, result), workspace.data(), early,
                                                     static_cast<cudaStream_t>(args.call.stream.handle));
  check_cuda(error, "launching cuda_decode", wrote_by(args.ring_begin.size(0)));
  return result;
}

StepResult run(const step::Arguments& args) {
  const Device device = args.x.device();
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.workspace, workspace_bytes(args), device, args.stream);
  StepResult result = step::make_result(args);
  const bool early = find_cuda_device(device)->architecture() >= 90;
  const cudaError_t error = cuda::launch_layer_step(step::call_of(args, result), workspace.data(), early,
                                                    static_cast<cudaStream_t>(args.stream.handle));
  check_cuda(error, "launching cuda_decode", BackendError::Wrote::nothing);
  return result;
}

/// What the backend has whichever op it serves; Backend is the op's class.
template <class Backend>
class AnyCudaDecode : public Backend {
 public:
  BackendInfo info() const override {
    return {
        .name = "cuda_decode",
        .package = "CUDA",
        .env_var = "FLA_CUDA_DECODE",
        .default_enable = true,
        .priority = 2,
        .doc =
            "steps of one to eight tokens at memory speed, in place, on a pool of f32 or bf16 states; sm_80 "
            "and up",
        .batch_invariant = true};
  }

  Availability is_available() const override { return cuda::available_on(kDevices); }
};

template <class Backend>
class CudaDecode : public AnyCudaDecode<Backend> {
 public:
  std::size_t workspace_size(std::string_view, const typename Backend::Args& args) const override {
    return workspace_bytes(args);
  }
};

#define FLA_CUDA_DECODE(OP, NAME)                                                    \
  class CudaDecode##NAME final : public CudaDecode<NAME##Backend> {                  \
   public:                                                                           \
    Verdict fused_recurrent_##OP##_verifier(const NAME##Args& args) const override { \
      return verify(args, find_cuda_device(args.q.device()));                        \
    }                                                                                \
    RecurrenceResult fused_recurrent_##OP(const NAME##Args& args) override {         \
      return run(recurrence::arguments_of(args));                                    \
    }                                                                                \
    Verdict replay_##OP##_verifier(const NAME##ReplayArgs& args) const override {    \
      return verify(args, find_cuda_device(args.state.device()));                    \
    }                                                                                \
    ReplayResult replay_##OP(const NAME##ReplayArgs& args) override {                \
      return run(recurrence::replay_arguments_of(args));                             \
    }                                                                                \
  };                                                                                 \
  FLA_REGISTER_BACKEND(OP, cuda_decode, CudaDecode##NAME)

#define FLA_CUDA_DECODE_STEP(OP, NAME)                                                       \
  class CudaDecode##NAME final : public AnyCudaDecode<NAME##Backend> {                       \
   public:                                                                                   \
    Verdict OP##_verifier(const NAME##Args& args) const override {                           \
      return verify(args, find_cuda_device(args.x.device()));                                \
    }                                                                                        \
    StepResult OP(const NAME##Args& args) override { return run(step::arguments_of(args)); } \
    std::size_t workspace_size(const NAME##Args& args) const override {                      \
      return workspace_bytes(step::arguments_of(args));                                      \
    }                                                                                        \
  };                                                                                         \
  FLA_REGISTER_BACKEND(OP, cuda_decode, CudaDecode##NAME)

FLA_CUDA_DECODE_STEP(kda_step, KdaStep);
FLA_CUDA_DECODE_STEP(gated_delta_rule_step, GatedDeltaRuleStep);

FLA_CUDA_DECODE(kda, Kda);
FLA_CUDA_DECODE(gated_delta_rule, GatedDeltaRule);
FLA_CUDA_DECODE(delta_rule, DeltaRule);
FLA_CUDA_DECODE(gla, Gla);
FLA_CUDA_DECODE(simple_gla, SimpleGla);
FLA_CUDA_DECODE(retention, Retention);
FLA_CUDA_DECODE(lightning_attn, LightningAttn);
FLA_CUDA_DECODE(linear_attn, LinearAttn);
FLA_CUDA_DECODE(dplr_delta_rule, DplrDeltaRule);
FLA_CUDA_DECODE(iplr_delta_rule, IplrDeltaRule);

}  // namespace
}  // namespace fla::cuda_decode
