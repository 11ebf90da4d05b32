#include "fla/ops/ops.h"

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

Verdict verify_call(const recurrence::Arguments& args) {
  const Verdict verdict = verify(args, find_cuda_device(args.q.device()));
  if (!verdict.ok() || args.workspace.data == nullptr) return verdict;
  return cuda::verify_workspace(args.workspace, workspace(call_of(args, {})));
}

RecurrenceResult run(const recurrence::Arguments& args) {
  const Device device = args.q.device();
  const CurrentDevice current(device.index);
  const CallWorkspace memory(args.workspace, workspace(call_of(args, {})), device, args.stream);
  RecurrenceResult result = make_result(args);
  check_cuda(launch(call_of(args, result), memory.data(), static_cast<cudaStream_t>(args.stream.handle)),
             "launching tilelang", BackendError::Wrote::nothing);
  return result;
}

/// What the backend has whichever op it serves; Backend is the op's class.
template <class Backend>
class TileLang : public Backend {
 public:
  using Args = typename Backend::Args;

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
        .precision = DType::f16,
        .batch_invariant = true};
  }

  Availability is_available() const override {
    if (const std::string_view why = why_not_built(); !why.empty()) return Availability::no(std::string(why));
    return cuda::available_on(kDevices);
  }

  std::size_t workspace_size(std::string_view, const Args& args) const override {
    return workspace(call_of(args, {}));
  }

  std::string route(std::string_view, const Args& args) const override {
    return instances_of(call_of(args, {}));
  }
};

#define FLA_TILELANG(OP, NAME)                                             \
  class TileLang##NAME final : public TileLang<NAME##Backend> {            \
   public:                                                                 \
    Verdict chunk_##OP##_verifier(const NAME##Args& args) const override { \
      return verify_call(recurrence::arguments_of(args));                  \
    }                                                                      \
    RecurrenceResult chunk_##OP(const NAME##Args& args) override {         \
      return run(recurrence::arguments_of(args));                          \
    }                                                                      \
  };                                                                       \
  FLA_REGISTER_BACKEND(OP, tilelang, TileLang##NAME)

FLA_TILELANG(kda, Kda);
// The same kernels serve it: a gate per token has channel stride 0.
FLA_TILELANG(gated_delta_rule, GatedDeltaRule);

}  // namespace
}  // namespace fla::tilelang
