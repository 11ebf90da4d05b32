#include "fla/ops/ops.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "backends/flash_kda/flash.h"
#include "backends/flash_kda/sizes.h"
#include "backends/flash_kda/verifier.h"
#include "fla/core/cuda_devices.h"
#include "fla/core/cuda_error.h"
#include "fla/core/environment.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/common/call_workspace.h"
#include "fla/ops/recurrence/call_of.h"

namespace fla::flash_kda {
namespace {

constexpr std::string_view kDeterministicRoute = "FLA_FLASH_KDA_DETERMINISTIC_ROUTE";
constexpr std::array kVariables{Variable{
    kDeterministicRoute, "0, 1", "0",
    "flash_kda, flash_gdn, flash_gla and flash_simple_gla never cut sequences into segments, so that results "
    "have the same bits in any batch"}};

std::string text_of(const Route& route) {
  const auto number = [](std::int32_t count) { return std::to_string(count); };
  if (route.segments > 1)
    return "segments: prep, then " + number(route.segments) + " parts of every sequence at once";
  if (route.together()) {
    return "together: " + number(route.prep_blocks) + " blocks prepare beside " +
           number(route.state_blocks()) + " that run states" + (route.shares == 2 ? ", two a chain" : "");
  }
  return "apart: prep, then states";
}

/// What tells the backends of this folder apart.
struct Name {
  std::string_view name, env_var, doc;
};
constexpr Name kKda{"flash_kda", "FLA_FLASH_KDA",
                    "chunked prefill on Hopper's tensor cores, bf16 and f16, K of 64 or 128, V of 64 to 256, "
                    "f32 states; sm_90"};
constexpr Name kGdn{"flash_gdn", "FLA_FLASH_GDN",
                    "chunked prefill by flash_kda's kernels, bf16 and f16, K of 64 or 128, V of 64 to 256, "
                    "f32 states; sm_90"};
constexpr Name kGla{
    "flash_gla", "FLA_FLASH_GLA",
    "chunked prefill by flash_kda's kernels without what the delta rule needs, bf16 and f16, K "
    "and V of 64 or 128, f32 states; sm_90"};
constexpr Name kSimpleGla{
    "flash_simple_gla", "FLA_FLASH_SIMPLE_GLA",
    "chunked prefill by flash_gla's kernels, for gates of one number a token or a head, "
    "bf16 and f16, K of 64 or 128, V of 64 to 256, f32 states; sm_90"};

/// What the backends of all ops have; Backend is the op's class.
template <class Backend, const Name& kName>
class Flash : public Backend {
 public:
  using Args = typename Backend::Args;

  BackendInfo info() const override {
    return {.name = kName.name,
            .package = "CUTLASS",
            .env_var = kName.env_var,
            .priority = 3,
            .doc = kName.doc,
            .precision = DType::bf16,
            .batch_invariant = true};
  }

  Availability is_available() const override { return cuda::available_on(kDevices); }

  void configure() override {
    const auto value = environment(kDeterministicRoute);
    deterministic_.store(value && parse_switch(kDeterministicRoute, *value), std::memory_order_relaxed);
  }

  /// Whatever the setting is.
  std::size_t workspace_size(std::string_view, const Args& args) const override {
    const RecurrenceCall call = call_of(args, {});
    const int processors = find_cuda_device(args.q.device())->multiprocessors;
    return std::max(workspace(call, route_of(call, processors, false)),
                    workspace(call, route_of(call, processors, true)));
  }

  std::string route(std::string_view, const Args& args) const override {
    const RecurrenceCall call = call_of(args, {});
    return text_of(chosen(call, args.q.device())) +
           (call.V > kHead ? "; twice, 128 columns of V at most" : "");
  }

 protected:
  Verdict verify_call(const Args& args) const {
    FLA_VERIFY(verify(recurrence::arguments_of(args), find_cuda_device(args.q.device())));
    const RecurrenceCall call = call_of(args, {});
    const Route route = chosen(call, args.q.device());
    if (args.workspace.data != nullptr)
      FLA_VERIFY(cuda::verify_workspace(args.workspace, workspace(call, route)));
    return accept(route);
  }

  RecurrenceResult run(const Args& args, const Verdict& accepted) const {
    const Device device = args.q.device();
    const CurrentDevice current(device.index);
    RecurrenceCall call = call_of(args, {});
    const auto carried = accepted.carried<Route>();
    const Route route = carried ? *carried : chosen(call, device);
    const CallWorkspace memory(args.workspace, workspace(call, route), device, args.stream);
    RecurrenceResult result = make_result(args);
    call = call_of(args, result);
    // Only the last kernel writes results, of the last slice too.
    check_cuda(launch(call, route, memory.data(), static_cast<cudaStream_t>(args.stream.handle)),
               "launching the kernels of flash_kda",
               call.V > kHead ? BackendError::Wrote::maybe : BackendError::Wrote::nothing);
    return result;
  }

 private:
  Route chosen(const RecurrenceCall& call, Device device) const {
    return route_of(call, find_cuda_device(device)->multiprocessors,
                    deterministic_.load(std::memory_order_relaxed) || batch_invariant());
  }

  std::atomic<bool> deterministic_{false};
};

/// The op's class; OF: which of the backends it belongs to.
#define FLA_FLASH(OP, NAME, OF, ...)                                                                   \
  class Flash##NAME final : public Flash<NAME##Backend, OF> {                                          \
   public:                                                                                             \
    Verdict chunk_##OP##_verifier(const NAME##Args& args) const override { return verify_call(args); } \
    RecurrenceResult chunk_##OP(const NAME##Args& args) override { return run(args, accept()); }       \
    RecurrenceResult chunk_##OP##_accepted(const NAME##Args& args, const Verdict& accepted) {          \
      return run(args, accepted);                                                                      \
    }                                                                                                  \
    __VA_ARGS__                                                                                        \
  }

FLA_FLASH(
    kda, Kda, kKda, std::span<const Variable> variables() const override { return kVariables; });
FLA_REGISTER_BACKEND(kda, flash_kda, FlashKda);
FLA_FLASH(gated_delta_rule, GatedDeltaRule, kGdn);
FLA_REGISTER_BACKEND(gated_delta_rule, flash_gdn, FlashGatedDeltaRule);
FLA_FLASH(delta_rule, DeltaRule, kGdn);
FLA_REGISTER_BACKEND(delta_rule, flash_gdn, FlashDeltaRule);
FLA_FLASH(gla, Gla, kGla);
FLA_REGISTER_BACKEND(gla, flash_gla, FlashGla);
FLA_FLASH(simple_gla, SimpleGla, kSimpleGla);
FLA_REGISTER_BACKEND(simple_gla, flash_simple_gla, FlashSimpleGla);
FLA_FLASH(retention, Retention, kSimpleGla);
FLA_REGISTER_BACKEND(retention, flash_simple_gla, FlashRetention);
FLA_FLASH(lightning_attn, LightningAttn, kSimpleGla);
FLA_REGISTER_BACKEND(lightning_attn, flash_simple_gla, FlashLightningAttn);
FLA_FLASH(linear_attn, LinearAttn, kSimpleGla);
FLA_REGISTER_BACKEND(linear_attn, flash_simple_gla, FlashLinearAttn);

}  // namespace
}  // namespace fla::flash_kda
