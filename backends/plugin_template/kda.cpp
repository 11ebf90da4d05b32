#include "fla/ops/kda/kda.h"

#include <algorithm>
#include <cmath>

#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/dispatch/catalog/registration.h"
#include "fla/ops/recurrence/call_of.h"

/// The recurrence of fla/ops/kda/kda.h, token by token in f32: the place to put a better kernel. It reads the
/// lowered call (fla/ops/recurrence/call.h), which describes every op of the family in the same way:
/// pointers, strides, what decays the state and what a token adds to it. One task a sequence and value head;
/// a task keeps its state in scratch memory and writes it once, at the end, so that a state that is updated
/// in place is the old one until then.
namespace fla {
namespace {

constexpr std::int64_t kMaxChannels = 128;

/// The tokens of one head.
struct HeadRows {
  const RecurrenceCall& call;
  std::int64_t batch, head;

  float& at(const common::Rows& rows, std::int64_t t, std::int64_t of_head, std::int64_t channel) const {
    return static_cast<float*>(
        rows.data)[batch * rows.batch + t * rows.token + of_head * rows.head + channel * rows.channel];
  }
  float key(const common::Rows& rows, std::int64_t t, std::int64_t channel) const {
    return at(rows, t, head / call.group, channel);
  }
  float log_decay(std::int64_t t, std::int64_t channel) const {
    if (call.gate_kind == GateKind::none) return 0;
    return call.g.data ? at(call.g, t, head, channel) : head_decay(call, head);
  }
  /// 1 / |x| where keys are to be normalised.
  float norm(const common::Rows& rows, std::int64_t t) const {
    if (!call.l2norm) return 1;
    float sum = 1e-6f;
    for (std::int64_t i = 0; i < call.K; ++i) sum += key(rows, t, i) * key(rows, t, i);
    return 1 / std::sqrt(sum);
  }
};

float& state_at(const common::States& states, std::int64_t slot, std::int64_t head, std::int64_t key,
                std::int64_t value) {
  return static_cast<float*>(
      states.data)[states.offset(slot, head) + key * states.key + value * states.value];
}

/// One value head of one sequence.
void run_head(const RecurrenceCall& call, const LowRankPair& pair, std::int64_t n, std::int64_t head) {
  const std::int64_t K = call.K, V = call.V;
  const Sequence tokens = sequence_of(call, n);
  const HeadRows rows{call, tokens.batch, head};
  const common::Slots slots = common::slots_of(call, n);
  if (slots.read < 0) {  // skipped
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      for (std::int64_t j = 0; j < V; ++j) rows.at(call.o, t, head, j) = 0;
    }
    return;
  }
  float* S = thread_scratch(static_cast<std::size_t>(K * V + 2 * V));  // [K, V]
  float *u = S + K * V, *w = u + V;
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j)
      S[i * V + j] = call.initial_state.data ? state_at(call.initial_state, slots.read, head, i, j) : 0.0f;
  }

  for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
    const float q_norm = rows.norm(call.q, t) * call.scale, k_norm = rows.norm(call.k, t);
    std::fill_n(u, 2 * V, 0.0f);  // k^T S of the decayed state, a^T S of the one before
    for (std::int64_t i = 0; i < K; ++i) {
      const float decay = std::exp(rows.log_decay(t, i)), k = rows.key(call.k, t, i) * k_norm;
      const float a = call.rule == Rule::low_rank ? rows.key(pair.a, t, i) : 0;
      for (std::int64_t j = 0; j < V; ++j) {
        w[j] += a * S[i * V + j];
        u[j] += k * (S[i * V + j] *= decay);
      }
    }
    for (std::int64_t j = 0; j < V; ++j) {
      const float v = rows.at(call.v, t, head, j);
      u[j] = call.rule == Rule::delta ? rows.at(call.beta, t, head, 0) * (v - u[j]) : v;
    }
    for (std::int64_t i = 0; i < K; ++i) {
      const float k = rows.key(call.k, t, i) * k_norm;
      const float b = call.rule == Rule::low_rank ? rows.key(pair.b, t, i) : 0;
      for (std::int64_t j = 0; j < V; ++j) S[i * V + j] += k * u[j] + b * w[j];
    }
    std::fill_n(u, V, 0.0f);
    for (std::int64_t i = 0; i < K; ++i) {
      const float q = rows.key(call.q, t, i) * q_norm;
      for (std::int64_t j = 0; j < V; ++j) u[j] += q * S[i * V + j];
    }
    for (std::int64_t j = 0; j < V; ++j) rows.at(call.o, t, head, j) = u[j];
  }

  if (!call.final_state.data || slots.write < 0) return;
  for (std::int64_t i = 0; i < K; ++i) {
    for (std::int64_t j = 0; j < V; ++j) state_at(call.final_state, slots.write, head, i, j) = S[i * V + j];
  }
}

RecurrenceResult run(const KdaArgs& args) {
  RecurrenceResult result = make_result(args);
  const RecurrenceCall call = call_of(args, result);
  const LowRankPair pair = recurrence::pair_of(recurrence::arguments_of(args));
  parallel_for(call.N * call.HV,
               [&](std::int64_t task, int) { run_head(call, pair, task / call.HV, task % call.HV); });
  return result;
}

/// Everything that the kernel above cannot do, each with its reason. No test of a tensor's contents, no
/// allocation.
Verdict verify(const KdaArgs& args) {
  const recurrence::Arguments all =
      recurrence::arguments_of(args);  // those that the op does not have: absent
  FLA_REFUSE_IF(!all.q.device().is_cpu(), "requires tensors on cpu, got {}", all.q.device());
  for (const TensorView* tensor : {&all.q, &all.k, &all.v, &all.g, &all.g_gamma, &all.beta, &all.a, &all.b}) {
    FLA_REFUSE_IF(tensor->defined() && tensor->dtype() != DType::f32, "requires f32 tensors, got {}",
                  tensor->dtype());
  }
  for (const TensorView* state : {&all.initial_state, &all.final_state}) {
    FLA_REFUSE_IF(state->defined() && state->dtype() != DType::f32, "requires f32 states, got {}",
                  state->dtype());
  }
  FLA_REFUSE_IF(all.q.size(3) > kMaxChannels, "requires K<={}, got {}", kMaxChannels, all.q.size(3));
  FLA_REFUSE_IF(all.v.size(3) > kMaxChannels, "requires V<={}, got {}", kMaxChannels, all.v.size(3));
  FLA_REFUSE_IF(all.use_gate_in_kernel, "requires decays as they are: has no use_gate_in_kernel");
  FLA_REFUSE_IF(all.use_beta_sigmoid_in_kernel, "requires beta as it is: has no use_beta_sigmoid_in_kernel");
  FLA_REFUSE_IF(all.checkpoint_every.has_value(), "requires a call without checkpoints");
  FLA_REFUSE_IF(all.normalize, "requires outputs as they are: has no normalize");
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
  RecurrenceResult chunk_kda(const KdaArgs& args) override { return run(args); }

  Verdict fused_recurrent_kda_verifier(const KdaArgs& args) const override { return verify(args); }
  RecurrenceResult fused_recurrent_kda(const KdaArgs& args) override { return run(args); }
};

FLA_REGISTER_BACKEND(kda, plugin_template, PluginTemplateKda);

}  // namespace
}  // namespace fla
