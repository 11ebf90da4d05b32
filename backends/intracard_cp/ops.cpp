#include "fla/ops/ops.h"

#include <string>

#include "backends/intracard_cp/cut.h"
#include "backends/intracard_cp/parts.h"
#include "backends/intracard_cp/verifier.h"
#include "fla/core/cuda_error.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/recurrence/call_of.h"

namespace fla::intracard_cp {
namespace {

/// Of a call that the verifier accepts.
Cut cut_of(const recurrence::Arguments& args) {
  return cut_of(sizes_of(args), find_cuda_device(args.q.device())->multiprocessors);
}

std::size_t workspace_bytes(const recurrence::Arguments& args) {
  return workspace_bytes(call_of(args, {}), recurrence::extras_of(args), cut_of(args));
}

Verdict verify_call(const recurrence::Arguments& args) {
  FLA_VERIFY(verify(args, find_cuda_device(args.q.device())));
  if (args.workspace.data == nullptr) return accept();
  return cuda::verify_workspace(args.workspace, workspace_bytes(args));
}

RecurrenceResult run(const recurrence::Arguments& args) {
  const Device device = args.q.device();
  const CurrentDevice current(device.index);
  const CallWorkspace workspace(args.workspace, workspace_bytes(args), device, args.stream);
  RecurrenceResult result = make_result(args);
  // The last launch alone writes results.
  check_cuda(launch(call_of(args, result), recurrence::extras_of(args), cut_of(args), workspace.data(),
                    static_cast<cudaStream_t>(args.stream.handle)),
             "launching intracard_cp", BackendError::Wrote::nothing);
  return result;
}

/// What the backend has whichever op it serves; Backend is the op's class.
template <class Backend>
class IntracardCp : public Backend {
 public:
  using Args = typename Backend::Args;

  BackendInfo info() const override {
    return {
        .name = "intracard_cp",
        .package = "CUDA",
        .env_var = "FLA_INTRACARD_CP",
        .default_enable = true,
        .priority = 4,
        .doc =
            "long prefill of few heads: sequences are cut into parts that the original kernels run side by "
            "side; sm_80 and up"};
  }

  Availability is_available() const override { return cuda::available_on(kDevices); }

  std::size_t workspace_size(std::string_view, const Args& args) const override {
    return workspace_bytes(recurrence::arguments_of(args));
  }

  std::string route(std::string_view, const Args& args) const override {
    return "up to " + std::to_string(cut_of(recurrence::arguments_of(args)).parts) + " parts a sequence";
  }
};

#define FLA_INTRACARD_CP(OP, NAME)                                         \
  class IntracardCp##NAME final : public IntracardCp<NAME##Backend> {      \
   public:                                                                 \
    Verdict chunk_##OP##_verifier(const NAME##Args& args) const override { \
      return verify_call(recurrence::arguments_of(args));                  \
    }                                                                      \
    RecurrenceResult chunk_##OP(const NAME##Args& args) override {         \
      return run(recurrence::arguments_of(args));                          \
    }                                                                      \
  };                                                                       \
  FLA_REGISTER_BACKEND(OP, intracard_cp, IntracardCp##NAME)

FLA_INTRACARD_CP(kda, Kda);
FLA_INTRACARD_CP(gated_delta_rule, GatedDeltaRule);
FLA_INTRACARD_CP(delta_rule, DeltaRule);
FLA_INTRACARD_CP(gla, Gla);
FLA_INTRACARD_CP(simple_gla, SimpleGla);
FLA_INTRACARD_CP(retention, Retention);
FLA_INTRACARD_CP(lightning_attn, LightningAttn);
FLA_INTRACARD_CP(linear_attn, LinearAttn);
FLA_INTRACARD_CP(dplr_delta_rule, DplrDeltaRule);
FLA_INTRACARD_CP(iplr_delta_rule, IplrDeltaRule);

}  // namespace
}  // namespace fla::intracard_cp
