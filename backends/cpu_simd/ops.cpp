#include "fla/ops/ops.h"

#include <array>
#include <atomic>
#include <string>

#include "backends/cpu_simd/kernels.h"
#include "backends/cpu_simd/schedule.h"
#include "backends/cpu_simd/targets.h"
#include "fla/core/environment.h"
#include "fla/core/errors.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/dispatch/settings/policy.h"
#include "fla/ops/recurrence/call_of.h"

namespace fla::cpu_simd {
namespace {

constexpr std::string_view kTargetVariable = "FLA_CPU_SIMD_TARGET";
constexpr std::array kVariables{Variable{kTargetVariable, "NEON, SVE_256, AVX2, AVX3",
                                         "the best that the CPU has",
                                         "the SIMD target that cpu_simd runs, by Highway's name"}};

Verdict verify_rows(const TensorView& rows, const char* name) {
  FLA_REFUSE_IF(rows.defined() && rows.stride(3) != 1 && rows.size(3) != 1,
                "requires contiguous channels in {}, got stride {}", name, rows.stride(3));
  return accept();
}

Verdict verify_state(const TensorView& state, const char* name) {
  if (!state.defined()) return accept();
  FLA_REFUSE_IF(state.dtype() != DType::f32, "requires an f32 {}, got {}", name, state.dtype());
  const int column = state.rank() - 1, row = column - 1;
  const bool contiguous = (state.stride(column) == 1 || state.size(column) == 1) &&
                          (state.stride(row) == state.size(column) || state.size(row) == 1);
  FLA_REFUSE_IF(!contiguous, "requires contiguous states in {}, got strides {} and {}", name,
                state.stride(row), state.stride(column));
  return accept();
}

/// What forward and backward calls have in common.
template <class Args>
Verdict verify_inputs(const Args& args) {
  FLA_REFUSE_IF(!args.q.device().is_cpu(), "requires CPU tensors, got {}", args.q.device());
  FLA_VERIFY(verify_rows(args.q, "q"));
  FLA_VERIFY(verify_rows(args.k, "k"));
  FLA_VERIFY(verify_rows(args.v, "v"));
  if constexpr (Args::kOp.gate == GateKind::channel) FLA_VERIFY(verify_rows(args.g, "g"));
  return verify_state(args.initial_state, "initial_state");
}

template <RecurrenceArgs Args>
Verdict verify(const Args& args) {
  FLA_VERIFY(verify_inputs(args));
  FLA_VERIFY(verify_state(args.checkpoints, "checkpoints"));
  if constexpr (Args::kOp.rule == Rule::low_rank) {
    FLA_VERIFY(verify_rows(args.a, "a"));
    FLA_VERIFY(verify_rows(args.b, "b"));
  }
  FLA_VERIFY(verify_rows(args.out, "out"));
  return verify_state(args.final_state, "final_state");
}

template <ReplayArgs Args>
Verdict verify(const Args& args) {
  FLA_REFUSE_IF(!args.q.device().is_cpu(), "requires CPU tensors, got {}", args.q.device());
  FLA_VERIFY(verify_rows(args.q, "q"));
  FLA_VERIFY(verify_rows(args.k, "k"));
  FLA_VERIFY(verify_rows(args.v, "v"));
  FLA_VERIFY(verify_rows(args.ring_k, "ring_k"));
  FLA_VERIFY(verify_rows(args.ring_u, "ring_u"));
  if constexpr (Args::kOp.gate == GateKind::channel) {
    FLA_VERIFY(verify_rows(args.g, "g"));
    FLA_VERIFY(verify_rows(args.ring_g, "ring_g"));
  }
  if constexpr (Args::kOp.rule == Rule::low_rank) {
    FLA_VERIFY(verify_rows(args.a, "a"));
    FLA_VERIFY(verify_rows(args.b, "b"));
    FLA_VERIFY(verify_rows(args.ring_b, "ring_b"));
    FLA_VERIFY(verify_rows(args.ring_w, "ring_w"));
  }
  FLA_VERIFY(verify_rows(args.out, "out"));
  return verify_state(args.state, "state");
}

/// What a call that was chosen is to keep, whatever the settings are when it runs.
struct Promise {
  bool batch_invariant;
};

template <RecurrenceArgs Args>
Verdict verify_chunks(const Args& args) {
  FLA_VERIFY(verify(args));
  const std::int64_t every = args.checkpoint_every.value_or(kChunkTokens);
  FLA_REFUSE_IF(Args::kOp.rule != Rule::low_rank && every % kChunkTokens != 0,
                "requires checkpoint_every to be a multiple of {}, got {}", kChunkTokens, every);
  return accept(Promise{batch_invariant()});
}

template <BackwardArgs Args>
Verdict verify(const Args& args) {
  FLA_VERIFY(verify_inputs(args));
  if constexpr (requires { args.normalize; })
    FLA_REFUSE_IF(args.normalize, "requires outputs that are not normalized");
  FLA_VERIFY(verify_rows(args.do_, "do"));
  FLA_VERIFY(verify_state(args.dht, "dht"));
  FLA_VERIFY(verify_rows(args.dq, "dq"));
  FLA_VERIFY(verify_rows(args.dk, "dk"));
  FLA_VERIFY(verify_rows(args.dv, "dv"));
  if constexpr (Args::kOp.gate == GateKind::channel) FLA_VERIFY(verify_rows(args.dg, "dg"));
  return verify_state(args.dinitial_state, "dinitial_state");
}

/// What the backend has whichever op it serves; Backend is the op's class.
template <class Backend>
class CpuSimd : public Backend {
 public:
  BackendInfo info() const override {
    return {.name = "cpu_simd",
            .package = "Highway",
            .env_var = "FLA_CPU_SIMD",
            .default_enable = true,
            .priority = 5,
            .doc =
                "chunked prefill, gradients and one-pass decoding with AVX2, AVX-512, NEON or SVE, chosen at "
                "run time",
            .batch_invariant = true};
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
  template <BackwardArgs Args>
  RecurrenceGradients run_back(const Args& args) const {
    const recurrence::BackwardArguments all = recurrence::backward_arguments_of(args);
    RecurrenceGradients result = recurrence::make_result(all);
    run_backward(recurrence::call_of(all, result), target());
    return result;
  }

  template <class Args>
  RecurrenceResult run_chunks(const Args& args, const Verdict& accepted) const {
    const auto promise = accepted.carried<Promise>().value_or(Promise{batch_invariant()});
    return run(args, run_chunked, promise.batch_invariant);
  }

  template <class Args>
  RecurrenceResult run_tokens(const Args& args) const {
    return run(args, run_recurrent);
  }

  template <ReplayArgs Args>
  ReplayResult run_rings(const Args& args) const {
    const recurrence::ReplayArguments all = recurrence::replay_arguments_of(args);
    ReplayResult result = recurrence::make_result(all);
    run_replay(recurrence::call_of(all, result), target());
    return result;
  }

 private:
  template <class Args, class Kernels, class... Options>
  RecurrenceResult run(const Args& args, Kernels kernels, Options... options) const {
    const recurrence::Arguments all = recurrence::arguments_of(args);
    RecurrenceResult result = recurrence::make_result(all);
    if (result.o.numel() > 0 || result.final_state.numel() > 0)
      kernels(recurrence::call_of(all, result), recurrence::extras_of(all), target(), options...);
    return result;
  }

  const Target& target() const {
    const Target* chosen = target_.load(std::memory_order_relaxed);
    if (chosen == nullptr) throw BackendError("cpu_simd is not available", BackendError::Wrote::nothing);
    return *chosen;
  }

  std::atomic<const Target*> target_{supported_targets().empty() ? nullptr : &supported_targets().front()};
};

#define FLA_CPU_SIMD_FORWARD(OP, NAME)                                                                    \
  Verdict chunk_##OP##_verifier(const NAME##Args& args) const override { return verify_chunks(args); }    \
  RecurrenceResult chunk_##OP(const NAME##Args& args) override { return run_chunks(args, accept()); }     \
  RecurrenceResult chunk_##OP##_accepted(const NAME##Args& args, const Verdict& accepted) {               \
    return run_chunks(args, accepted);                                                                    \
  }                                                                                                       \
  Verdict fused_recurrent_##OP##_verifier(const NAME##Args& args) const override { return verify(args); } \
  RecurrenceResult fused_recurrent_##OP(const NAME##Args& args) override { return run_tokens(args); }     \
  Verdict replay_##OP##_verifier(const NAME##ReplayArgs& args) const override { return verify(args); }    \
  ReplayResult replay_##OP(const NAME##ReplayArgs& args) override { return run_rings(args); }
#define FLA_CPU_SIMD_BACKWARD(OP, NAME)                                                   \
  Verdict chunk_##OP##_backward_verifier(const NAME##BackwardArgs& args) const override { \
    return verify(args);                                                                  \
  }                                                                                       \
  RecurrenceGradients chunk_##OP##_backward(const NAME##BackwardArgs& args) override {    \
    return run_back(args);                                                                \
  }

/// The op's class, from its functions.
#define FLA_CPU_SIMD_CLASS(OP, NAME, ...)                     \
  class CpuSimd##NAME final : public CpuSimd<NAME##Backend> { \
   public:                                                    \
    __VA_ARGS__                                               \
  };                                                          \
  FLA_REGISTER_BACKEND(OP, cpu_simd, CpuSimd##NAME)
#define FLA_CPU_SIMD(OP, NAME) \
  FLA_CPU_SIMD_CLASS(OP, NAME, FLA_CPU_SIMD_FORWARD(OP, NAME) FLA_CPU_SIMD_BACKWARD(OP, NAME))

FLA_CPU_SIMD(kda, Kda);
FLA_CPU_SIMD(gated_delta_rule, GatedDeltaRule);
FLA_CPU_SIMD(delta_rule, DeltaRule);
FLA_CPU_SIMD(gla, Gla);
FLA_CPU_SIMD(simple_gla, SimpleGla);
FLA_CPU_SIMD(retention, Retention);
FLA_CPU_SIMD(lightning_attn, LightningAttn);
FLA_CPU_SIMD(linear_attn, LinearAttn);
FLA_CPU_SIMD_CLASS(dplr_delta_rule, DplrDeltaRule, FLA_CPU_SIMD_FORWARD(dplr_delta_rule, DplrDeltaRule));
FLA_CPU_SIMD_CLASS(iplr_delta_rule, IplrDeltaRule, FLA_CPU_SIMD_FORWARD(iplr_delta_rule, IplrDeltaRule));

}  // namespace
}  // namespace fla::cpu_simd
