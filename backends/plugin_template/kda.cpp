#include "fla/ops/kda/kda.h"

#include <algorithm>
#include <cmath>

#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/dispatch/catalog/registration.h"

/// The recurrence of fla/ops/kda/kda.h, token by token in f32: the place to put a better kernel. One task a
/// sequence and value head; a task keeps its state in scratch memory and writes it once, at the end, so that
/// a state that is updated in place is the old one until then.
namespace fla {
namespace {

constexpr std::int64_t kMaxChannels = 128;

/// One value head of one sequence.
void run_head(const KdaArgs& args, const KdaResult& result, std::int64_t n, std::int64_t head) {
  const RecurrenceSizes size = sizes_of(args);
  const std::int64_t K = size.K, V = size.V, key_head = head / (size.HV / size.H);
  const Sequence tokens = tokens_of(args, n);
  const StateSlots slots = slots_of(args, n);
  const float scale = scale_of(args);
  float* state = thread_scratch(static_cast<std::size_t>(K * V + 2 * K + V));  // [K, V]
  float *q = state + K * V, *k = q + K, *u = k + K;

  const auto state_at = [&](const TensorView& view, std::int64_t slot, std::int64_t row,
                            std::int64_t column) -> float& {
    if (args.state_v_first) std::swap(row, column);
    return view.as<float>()[slot * view.stride(0) + head * view.stride(1) + row * view.stride(2) +
                            column * view.stride(3)];
  };
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j)
      state[i * V + j] = args.initial_state.defined() ? state_at(args.initial_state, slots.read, i, j) : 0.0f;
  }

  for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
    const auto channel = [&](const TensorView& view, std::int64_t at_head, std::int64_t c) -> float& {
      return view.as<float>()[tokens.batch * view.stride(0) + t * view.stride(1) + at_head * view.stride(2) +
                              c * view.stride(3)];
    };
    float q_norm = 1, k_norm = 1;
    if (args.use_qk_l2norm_in_kernel) {
      float q_sum = 1e-6f, k_sum = 1e-6f;
      for (std::int64_t i = 0; i < K; ++i) {
        q_sum += channel(args.q, key_head, i) * channel(args.q, key_head, i);
        k_sum += channel(args.k, key_head, i) * channel(args.k, key_head, i);
      }
      q_norm = 1 / std::sqrt(q_sum);
      k_norm = 1 / std::sqrt(k_sum);
    }
    const float beta = args.beta.as<float>()[tokens.batch * args.beta.stride(0) + t * args.beta.stride(1) +
                                             head * args.beta.stride(2)];
    std::fill_n(u, V, 0.0f);
    for (std::int64_t i = 0; i < K; ++i) {
      q[i] = channel(args.q, key_head, i) * q_norm * scale;
      k[i] = channel(args.k, key_head, i) * k_norm;
      const float decay = std::exp(channel(args.g, head, i));
      for (std::int64_t j = 0; j < V; ++j) u[j] += k[i] * (state[i * V + j] *= decay);
    }
    for (std::int64_t j = 0; j < V; ++j) u[j] = beta * (channel(args.v, head, j) - u[j]);
    for (std::int64_t i = 0; i < K; ++i) {
      for (std::int64_t j = 0; j < V; ++j) state[i * V + j] += k[i] * u[j];
    }
    std::fill_n(u, V, 0.0f);
    for (std::int64_t i = 0; i < K; ++i) {
      for (std::int64_t j = 0; j < V; ++j) u[j] += q[i] * state[i * V + j];
    }
    for (std::int64_t j = 0; j < V; ++j) channel(result.o.view(), head, j) = u[j];
  }

  if (!result.final_state.defined() || slots.write < 0) return;
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j)
      state_at(result.final_state.view(), slots.write, i, j) = state[i * V + j];
  }
}

/// What a sequence that state_indices say to skip gives.
void write_zeros(const KdaArgs& args, const KdaResult& result, std::int64_t n, std::int64_t head) {
  const Sequence tokens = tokens_of(args, n);
  const TensorView& o = result.o.view();
  for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
    for (std::int64_t j = 0; j < o.size(3); ++j)
      o.as<float>()[tokens.batch * o.stride(0) + t * o.stride(1) + head * o.stride(2) + j * o.stride(3)] = 0;
  }
}

KdaResult run(const KdaArgs& args) {
  KdaResult result = make_result(args);
  const RecurrenceSizes size = sizes_of(args);
  parallel_for(size.N * size.HV, [&](std::int64_t task, int) {
    const std::int64_t n = task / size.HV, head = task % size.HV;
    if (slots_of(args, n).read < 0) {
      write_zeros(args, result, n, head);
    } else {
      run_head(args, result, n, head);
    }
  });
  return result;
}

/// Everything that the kernel above cannot do, each with its reason. No test of a tensor's contents, no
/// allocation.
Verdict verify(const KdaArgs& args) {
  FLA_REFUSE_IF(!args.q.device().is_cpu(), "requires tensors on cpu, got {}", args.q.device());
  for (const TensorView* tensor : {&args.q, &args.k, &args.v, &args.g, &args.beta}) {
    FLA_REFUSE_IF(tensor->dtype() != DType::f32, "requires f32 tensors, got {}", tensor->dtype());
  }
  for (const TensorView* state : {&args.initial_state, &args.final_state}) {
    FLA_REFUSE_IF(state->defined() && state->dtype() != DType::f32, "requires f32 states, got {}",
                  state->dtype());
  }
  FLA_REFUSE_IF(args.q.size(3) > kMaxChannels, "requires K<={}, got {}", kMaxChannels, args.q.size(3));
  FLA_REFUSE_IF(args.v.size(3) > kMaxChannels, "requires V<={}, got {}", kMaxChannels, args.v.size(3));
  FLA_REFUSE_IF(args.use_gate_in_kernel, "requires decays as they are: has no use_gate_in_kernel");
  FLA_REFUSE_IF(args.use_beta_sigmoid_in_kernel, "requires beta as it is: has no use_beta_sigmoid_in_kernel");
  return accept();
}

class PluginTemplateKda final : public KdaBackend {
 public:
  BackendInfo info() const override {
    return {.name = "plugin_template",
            .package = "C++",
            .env_var = "FLA_PLUGIN_TEMPLATE",
            .priority = 50,  // after fla's own backends; lower it once it is faster than they are
            .doc = "the recurrence in f32, token by token"};
  }

  Verdict chunk_kda_verifier(const KdaArgs& args) const override { return verify(args); }
  KdaResult chunk_kda(const KdaArgs& args) override { return run(args); }

  Verdict fused_recurrent_kda_verifier(const KdaArgs& args) const override { return verify(args); }
  KdaResult fused_recurrent_kda(const KdaArgs& args) override { return run(args); }
};

FLA_REGISTER_BACKEND(kda, plugin_template, PluginTemplateKda);

}  // namespace
}  // namespace fla
