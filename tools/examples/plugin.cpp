// A backend from outside: a shared library that fla loads when linear_attn is called. It takes the calls that
// its kernel can do and refuses the others, each with a reason. scripts/new_backend --plugin makes a project
// with tests to start from.
#include <fla/dispatch/plugins/plugin.h>
#include <fla/ops/linear_attn/linear_attn.h>

#include <algorithm>
#include <vector>

namespace {

class Outsider final : public fla::LinearAttnBackend {
 public:
  fla::BackendInfo info() const override {
    return {.name = "outsider",
            .package = "C++",
            .env_var = "FLA_OUTSIDER",  // FLA_OUTSIDER=0 switches it off
            .priority = 1,              // asked before all others
            .doc = "token by token, f32"};
  }

  fla::Verdict chunk_linear_attn_verifier(const fla::LinearAttnArgs& args) const override {
    for (const fla::TensorView* tensor :
         {&args.q, &args.k, &args.v, &args.out, &args.initial_state, &args.final_state}) {
      if (!tensor->defined()) continue;
      FLA_REFUSE_IF(!tensor->device().is_cpu(), "requires tensors on cpu, got {}", tensor->device());
      FLA_REFUSE_IF(tensor->dtype() != fla::DType::f32, "requires f32 tensors, got {}", tensor->dtype());
      FLA_REFUSE_IF(!tensor->is_contiguous(), "requires contiguous tensors");
    }
    FLA_REFUSE_IF(args.normalize, "has no normalize");
    FLA_REFUSE_IF(args.state_v_first, "requires states of [K, V]");
    FLA_REFUSE_IF(args.checkpoint_every.has_value(), "requires a call without checkpoints");
    return fla::accept();
  }

  fla::RecurrenceResult chunk_linear_attn(const fla::LinearAttnArgs& args) override {
    fla::RecurrenceResult result = make_result(args);
    const fla::RecurrenceSizes sizes = sizes_of(args);
    for (std::int64_t n = 0; n < sizes.N; ++n) {
      for (std::int64_t head = 0; head < sizes.HV; ++head) run_head(args, result, n, head);
    }
    return result;
  }

 private:
  /// One value head of one sequence: S += k v^T, o = scale q^T S.
  static void run_head(const fla::LinearAttnArgs& args, fla::RecurrenceResult& result, std::int64_t n,
                       std::int64_t head) {
    const auto [B, T, H, HV, K, V, N] = sizes_of(args);
    const fla::Sequence tokens = tokens_of(args, n);
    const fla::StateSlots slots = slots_of(args, n);
    const float scale = scale_of(args);
    std::vector<float> S(static_cast<std::size_t>(K * V));
    if (args.initial_state.defined() && slots.read >= 0)
      std::copy_n(args.initial_state.as<float>() + (slots.read * HV + head) * K * V, K * V, S.begin());

    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      const std::int64_t token = tokens.batch * T + t, key = (token * H + head / (HV / H)) * K,
                         value = (token * HV + head) * V;
      const float *q = args.q.as<float>() + key, *k = args.k.as<float>() + key,
                  *v = args.v.as<float>() + value;
      for (std::int64_t j = 0; j < V; ++j) {
        float sum = 0;
        for (std::int64_t i = 0; i < K; ++i) {
          float& s = S[static_cast<std::size_t>(i * V + j)];
          s += k[i] * v[j];
          sum += q[i] * s;
        }
        result.o.as<float>()[value + j] = slots.read < 0 ? 0 : scale * sum;  // negative: skipped
      }
    }
    if (result.final_state.defined() && slots.read >= 0 && slots.write >= 0)
      std::copy_n(S.begin(), K * V, result.final_state.as<float>() + (slots.write * HV + head) * K * V);
  }
};

FLA_REGISTER_BACKEND(linear_attn, outsider, Outsider);

}  // namespace

FLA_PLUGIN(outsider) {}
