#include "fla/ops/ops.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "backends/flash_kda/flash.h"
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
    "flash_kda and flash_gdn never cut sequences into segments, so that results have the same bits in any "
    "batch"}};

std::string text_of(const Route& route) {
  const auto number = [](std::int32_t count) { return std::to_string(count); };
  if (route.segments > 1)
    return "segments: prep, then " + number(route.segments) + " parts of every sequence at once";
  if (route.together()) {
    return "together: " + number(route.prep_blocks) + " blocks prepare beside " + number(route.streams) +
           " that run states";
  }
  return "apart: prep, then states";
}

/// What the backends of all ops have; Backend is the op's class.
template <class Backend>
class Flash : public Backend {
 public:
  using Args = typename Backend::Args;

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
    return text_of(chosen(call_of(args, {}), args.q.device()));
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
    // Only the last kernel writes results.
    check_cuda(launch(call, route, memory.data(), static_cast<cudaStream_t>(args.stream.handle)),
               "launching the kernels of flash_kda", BackendError::Wrote::nothing);
    return result;
  }

 private:
  Route chosen(const RecurrenceCall& call, Device device) const {
    return route_of(call, find_cuda_device(device)->multiprocessors,
                    deterministic_.load(std::memory_order_relaxed) || batch_invariant());
  }

  std::atomic<bool> deterministic_{false};
};

class FlashKda final : public Flash<KdaBackend> {
 public:
  BackendInfo info() const override {
    return {.name = "flash_kda",
            .package = "CUTLASS",
            .env_var = "FLA_FLASH_KDA",
            .priority = 3,
            .doc =
                "chunked prefill on Hopper's tensor cores, bf16 and f16, K and V of 64 or 128, f32 states; "
                "sm_90",
            .precision = DType::bf16,
            .batch_invariant = true};
  }
  std::span<const Variable> variables() const override { return kVariables; }

  Verdict chunk_kda_verifier(const KdaArgs& args) const override { return verify_call(args); }
  KdaResult chunk_kda(const KdaArgs& args) override { return run(args, accept()); }
  KdaResult chunk_kda_accepted(const KdaArgs& args, const Verdict& accepted) { return run(args, accepted); }
};
FLA_REGISTER_BACKEND(kda, flash_kda, FlashKda);

/// The same kernels, compiled for gates of a number a token, or for none.
BackendInfo flash_gdn() {
  return {
      .name = "flash_gdn",
      .package = "CUTLASS",
      .env_var = "FLA_FLASH_GDN",
      .priority = 3,
      .doc = "chunked prefill by flash_kda's kernels, bf16 and f16, K and V of 64 or 128, f32 states; sm_90",
      .precision = DType::bf16,
      .batch_invariant = true};
}

class FlashGdn final : public Flash<GatedDeltaRuleBackend> {
 public:
  BackendInfo info() const override { return flash_gdn(); }
  Verdict chunk_gated_delta_rule_verifier(const GatedDeltaRuleArgs& args) const override {
    return verify_call(args);
  }
  RecurrenceResult chunk_gated_delta_rule(const GatedDeltaRuleArgs& args) override {
    return run(args, accept());
  }
  RecurrenceResult chunk_gated_delta_rule_accepted(const GatedDeltaRuleArgs& args, const Verdict& accepted) {
    return run(args, accepted);
  }
};
FLA_REGISTER_BACKEND(gated_delta_rule, flash_gdn, FlashGdn);

class FlashDeltaNet final : public Flash<DeltaRuleBackend> {
 public:
  BackendInfo info() const override { return flash_gdn(); }
  Verdict chunk_delta_rule_verifier(const DeltaRuleArgs& args) const override { return verify_call(args); }
  RecurrenceResult chunk_delta_rule(const DeltaRuleArgs& args) override { return run(args, accept()); }
  RecurrenceResult chunk_delta_rule_accepted(const DeltaRuleArgs& args, const Verdict& accepted) {
    return run(args, accepted);
  }
};
FLA_REGISTER_BACKEND(delta_rule, flash_gdn, FlashDeltaNet);

}  // namespace
}  // namespace fla::flash_kda
