#include "fla/ops/ops.h"

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <string_view>

#include "backends/intracard_cp/cut.h"
#include "backends/intracard_cp/parts.h"
#include "backends/intracard_cp/verifier.h"
#include "fla/core/cuda_error.h"
#include "fla/core/environment.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/recurrence/call_of.h"

namespace fla::intracard_cp {
namespace {

constexpr std::string_view kTokens = "FLA_INTRACARD_CP_TOKENS";
constexpr std::array kVariables{Variable{
    kTokens, "1 to 2^31", "16384", "tokens of a sequence, on average, from which intracard_cp takes a call"}};
static_assert(kLeastTokens == 16384);

/// Of a call that the verifier accepts.
Cut cut_of(const recurrence::Arguments& args) {
  return cut_of(sizes_of(args), find_cuda_device(args.q.device())->multiprocessors);
}

std::size_t workspace_bytes(const recurrence::Arguments& args) {
  return workspace_bytes(call_of(args, {}), recurrence::extras_of(args), cut_of(args));
}

Verdict verify_call(const recurrence::Arguments& args, std::int64_t least_tokens) {
  FLA_VERIFY(verify(args, find_cuda_device(args.q.device()), least_tokens));
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
        .priority = 5,
        .doc =
            "long prefill of few heads: sequences are cut into parts that the original kernels run side by "
            "side; sm_80 and up"};
  }

  Availability is_available() const override { return cuda::available_on(kDevices); }

  void configure() override {
    const auto value = environment(kTokens);
    least_tokens_.store(value ? parse_number(kTokens, *value, 1, std::int64_t{1} << 31) : kLeastTokens,
                        std::memory_order_relaxed);
  }

  std::size_t workspace_size(std::string_view, const Args& args) const override {
    return workspace_bytes(recurrence::arguments_of(args));
  }

  std::string route(std::string_view, const Args& args) const override {
    return "up to " + std::to_string(cut_of(recurrence::arguments_of(args)).parts) + " parts a sequence";
  }

 protected:
  std::int64_t least_tokens() const { return least_tokens_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> least_tokens_{kLeastTokens};
};

#define FLA_INTRACARD_CP(OP, NAME, ...)                                         \
  class IntracardCp##NAME final : public IntracardCp<NAME##Backend> {           \
   public:                                                                      \
    Verdict chunk_##OP##_verifier(const NAME##Args& args) const override {      \
      return verify_call(recurrence::arguments_of(args), this->least_tokens()); \
    }                                                                           \
    RecurrenceResult chunk_##OP(const NAME##Args& args) override {              \
      return run(recurrence::arguments_of(args));                               \
    }                                                                           \
    __VA_ARGS__                                                                 \
  };                                                                            \
  FLA_REGISTER_BACKEND(OP, intracard_cp, IntracardCp##NAME)

// The variable is listed once, by kda.
FLA_INTRACARD_CP(
    kda, Kda, std::span<const Variable> variables() const override { return kVariables; });
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
