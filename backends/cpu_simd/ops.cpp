#include "fla/ops/ops.h"

#include <array>
#include <atomic>
#include <string>

#include "backends/cpu_simd/schedule.h"
#include "backends/cpu_simd/targets.h"
#include "fla/core/environment.h"
#include "fla/core/errors.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/recurrence/call_of.h"

namespace fla::cpu_simd {
namespace {

constexpr std::string_view kTargetVariable = "FLA_CPU_SIMD_TARGET";
constexpr std::array kVariables{Variable{kTargetVariable, "NEON, SVE_256, AVX2, AVX3",
                                         "the best that the CPU has",
                                         "the SIMD target that cpu_simd runs, by Highway's name"}};

bool has_contiguous_channels(const TensorView& rows) { return rows.stride(3) == 1 || rows.size(3) == 1; }

bool is_contiguous_block(const TensorView& state) {
  return (state.stride(3) == 1 || state.size(3) == 1) &&
         (state.stride(2) == state.size(3) || state.size(2) == 1);
}

template <RecurrenceArgs Args>
Verdict verify(const Args& args) {
  FLA_REFUSE_IF(!args.q.device().is_cpu(), "requires CPU tensors, got {}", args.q.device());
  FLA_REFUSE_IF(!has_contiguous_channels(args.q), "requires contiguous channels in q, got stride {}",
                args.q.stride(3));
  FLA_REFUSE_IF(!has_contiguous_channels(args.k), "requires contiguous channels in k, got stride {}",
                args.k.stride(3));
  FLA_REFUSE_IF(!has_contiguous_channels(args.v), "requires contiguous channels in v, got stride {}",
                args.v.stride(3));
  if constexpr (Args::kOp.gate == GateKind::channel) {
    FLA_REFUSE_IF(!has_contiguous_channels(args.g), "requires contiguous channels in g, got stride {}",
                  args.g.stride(3));
  }
  if constexpr (Args::kOp.rule == Rule::low_rank) {
    FLA_REFUSE_IF(!has_contiguous_channels(args.a), "requires contiguous channels in a, got stride {}",
                  args.a.stride(3));
    FLA_REFUSE_IF(!has_contiguous_channels(args.b), "requires contiguous channels in b, got stride {}",
                  args.b.stride(3));
  }
  FLA_REFUSE_IF(args.out.defined() && !has_contiguous_channels(args.out),
                "requires contiguous channels in out, got stride {}", args.out.stride(3));
  if (const TensorView& state = args.initial_state; state.defined()) {
    FLA_REFUSE_IF(state.dtype() != DType::f32, "requires an f32 initial_state, got {}", state.dtype());
    FLA_REFUSE_IF(!is_contiguous_block(state),
                  "requires contiguous states in initial_state, got strides {} and {}", state.stride(2),
                  state.stride(3));
  }
  if (const TensorView& state = args.final_state; state.defined()) {
    FLA_REFUSE_IF(state.dtype() != DType::f32, "requires an f32 final_state, got {}", state.dtype());
    FLA_REFUSE_IF(!is_contiguous_block(state),
                  "requires contiguous states in final_state, got strides {} and {}", state.stride(2),
                  state.stride(3));
  }
  return accept();
}

/// What the backend has whichever op it serves; Backend is the op's class.
template <class Backend>
class CpuSimd : public Backend {
 public:
  BackendInfo info() const override {
    return {
        .name = "cpu_simd",
        .package = "Highway",
        .env_var = "FLA_CPU_SIMD",
        .default_enable = true,
        .priority = 5,
        .doc = "chunked prefill and one-pass decoding with AVX2, AVX-512, NEON or SVE, chosen at run time"};
  }

  Availability is_available() const override {
    if (supported_targets().empty())
      return Availability::no("this CPU has none of the SIMD targets of this build");
    return Availability::yes();
  }

  std::span<const Variable> variables() const override { return kVariables; }

  void configure() override {
    const auto name = environment(kTargetVariable);
    if (!name) {
      target_.store(supported_targets().empty() ? nullptr : &supported_targets().front(),
                    std::memory_order_relaxed);
      return;
    }
    const Target* target = target_called(*name);
    if (target == nullptr) {
      throw ConfigError(std::string(kTargetVariable) + ": expected a SIMD target that this machine has (" +
                        target_names() + "), got '" + *name + "'");
    }
    target_.store(target, std::memory_order_relaxed);
  }

 protected:
  template <class Args>
  RecurrenceResult run(const Args& args,
                       void (*kernels)(const RecurrenceCall&, const LowRankPair&, const Target&)) const {
    const recurrence::Arguments all = recurrence::arguments_of(args);
    RecurrenceResult result = recurrence::make_result(all);
    if (result.o.numel() > 0 || result.final_state.numel() > 0)
      kernels(recurrence::call_of(all, result), recurrence::pair_of(all), target());
    return result;
  }

 private:
  const Target& target() const {
    const Target* chosen = target_.load(std::memory_order_relaxed);
    if (chosen == nullptr) throw BackendError("cpu_simd is not available", BackendError::Wrote::nothing);
    return *chosen;
  }

  std::atomic<const Target*> target_{supported_targets().empty() ? nullptr : &supported_targets().front()};
};

#define FLA_CPU_SIMD(OP, NAME)                                                                              \
  class CpuSimd##NAME final : public CpuSimd<NAME##Backend> {                                               \
   public:                                                                                                  \
    Verdict chunk_##OP##_verifier(const NAME##Args& args) const override { return verify(args); }           \
    RecurrenceResult chunk_##OP(const NAME##Args& args) override { return run(args, run_chunked); }         \
    Verdict fused_recurrent_##OP##_verifier(const NAME##Args& args) const override { return verify(args); } \
    RecurrenceResult fused_recurrent_##OP(const NAME##Args& args) override {                                \
      return run(args, run_recurrent);                                                                      \
    }                                                                                                       \
  };                                                                                                        \
  FLA_REGISTER_BACKEND(OP, cpu_simd, CpuSimd##NAME)

FLA_CPU_SIMD(kda, Kda);
FLA_CPU_SIMD(gated_delta_rule, GatedDeltaRule);
FLA_CPU_SIMD(delta_rule, DeltaRule);
FLA_CPU_SIMD(gla, Gla);
FLA_CPU_SIMD(simple_gla, SimpleGla);
FLA_CPU_SIMD(retention, Retention);
FLA_CPU_SIMD(lightning_attn, LightningAttn);
FLA_CPU_SIMD(linear_attn, LinearAttn);
FLA_CPU_SIMD(dplr_delta_rule, DplrDeltaRule);

}  // namespace
}  // namespace fla::cpu_simd
