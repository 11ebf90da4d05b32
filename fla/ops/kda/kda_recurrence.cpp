#include "fla/ops/kda/kda_recurrence.h"

#include <algorithm>
#include <cmath>

#include "fla/core/errors.h"
#include "fla/core/scratch.h"
#include "fla/core/threads.h"
#include "fla/ops/common/gate.h"
#include "fla/ops/common/norm.h"
#include "fla/ops/common/recurrence.h"
#include "fla/ops/common/rows.h"

namespace fla {
namespace {

using common::load_element;
using common::load_row;
using common::store_row;

/// One value head of one sequence, in memory of the thread's own:
///   S [K][V] the state, q k g bias [K], v u o [V]
class Head {
 public:
  Head(const KdaArgs& args, std::int64_t value_head)
      : args_(args),
        sizes_(sizes_of(args)),
        value_head_(value_head),
        key_head_(value_head / (sizes_.HV / sizes_.H)) {
    const auto K = static_cast<std::size_t>(sizes_.K), V = static_cast<std::size_t>(sizes_.V);
    S_ = thread_scratch(K * V + 4 * K + 3 * V);
    q_ = S_ + K * V;
    k_ = q_ + K;
    g_ = k_ + K;
    bias_ = g_ + K;
    v_ = bias_ + K;
    u_ = v_ + V;
    o_ = u_ + V;
    if (!args.use_gate_in_kernel) return;
    if (args.A_log.defined()) rate_ = std::exp(load_element(args.A_log, value_head * args.A_log.stride(0)));
    if (const TensorView& bias = args.dt_bias; bias.defined()) {
      const bool flat = bias.rank() == 1;
      load_row(bias, value_head * bias.stride(0) * (flat ? sizes_.K : 1), bias.stride(flat ? 0 : 1), sizes_.K,
               bias_);
    }
  }

  void run(std::int64_t sequence, const KdaResult& result) {
    load_state(sequence);
    const TokenRange tokens = tokens_of(args_, sequence);
    const float scale = scale_of(args_);
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      load_token(tokens.batch, t);
      common::recurrent_step<common::Gate::channel, common::Rule::delta>(
          sizes_.K, sizes_.V, {q_, k_, v_, g_, beta_}, scale, S_, u_, o_);
      const TensorView& o = result.o;
      store_row(o, offset(o, tokens.batch, t, value_head_), o.stride(3), sizes_.V, o_);
    }
    store_state(sequence, result.final_state);
  }

 private:
  static std::int64_t offset(const TensorView& tensor, std::int64_t batch, std::int64_t token,
                             std::int64_t head) {
    return batch * tensor.stride(0) + token * tensor.stride(1) + head * tensor.stride(2);
  }

  void load_token(std::int64_t batch, std::int64_t token) {
    const auto load = [&](const TensorView& tensor, std::int64_t head, std::int64_t count, float* row) {
      load_row(tensor, offset(tensor, batch, token, head), tensor.stride(3), count, row);
    };
    load(args_.q, key_head_, sizes_.K, q_);
    load(args_.k, key_head_, sizes_.K, k_);
    load(args_.v, value_head_, sizes_.V, v_);
    load(args_.g, value_head_, sizes_.K, g_);
    if (args_.use_qk_l2norm_in_kernel) {
      common::l2_normalise(q_, sizes_.K);
      common::l2_normalise(k_, sizes_.K);
    }
    if (args_.use_gate_in_kernel) {
      const float* bias = args_.dt_bias.defined() ? bias_ : nullptr;
      if (args_.lower_bound) {
        common::bounded_gate(*args_.lower_bound, rate_, bias, sizes_.K, g_);
      } else {
        common::softplus_gate(rate_, bias, sizes_.K, g_);
      }
    }
    beta_ = load_element(args_.beta, offset(args_.beta, batch, token, value_head_));
    if (args_.use_beta_sigmoid_in_kernel)
      beta_ = common::sigmoid(beta_) * (args_.allow_neg_eigval ? 2.0f : 1.0f);
  }

  /// Row i of the state [K][V], whichever layout the tensor has: where it begins and how far its elements are
  /// apart.
  struct Row {
    std::int64_t offset, stride;
  };
  Row row(const TensorView& state, std::int64_t sequence, std::int64_t i) const {
    const int key_axis = args_.state_v_first ? 3 : 2, value_axis = args_.state_v_first ? 2 : 3;
    return {sequence * state.stride(0) + value_head_ * state.stride(1) + i * state.stride(key_axis),
            state.stride(value_axis)};
  }

  void load_state(std::int64_t sequence) {
    if (!args_.initial_state.defined()) {
      std::fill_n(S_, sizes_.K * sizes_.V, 0.0f);
      return;
    }
    for (std::int64_t i = 0; i < sizes_.K; ++i) {
      const Row at = row(args_.initial_state, sequence, i);
      load_row(args_.initial_state, at.offset, at.stride, sizes_.V, S_ + i * sizes_.V);
    }
  }

  void store_state(std::int64_t sequence, const Tensor& state) const {
    if (!state.defined()) return;
    for (std::int64_t i = 0; i < sizes_.K; ++i) {
      const Row at = row(state, sequence, i);
      store_row(state, at.offset, at.stride, sizes_.V, S_ + i * sizes_.V);
    }
  }

  const KdaArgs& args_;
  KdaSizes sizes_;
  std::int64_t value_head_, key_head_;
  float rate_ = 1, beta_ = 0;
  float *S_, *q_, *k_, *g_, *bias_, *v_, *u_, *o_;
};

}  // namespace

KdaResult recurrent_kda_cpu(const KdaArgs& args) {
  if (!args.q.device().is_cpu()) {
    throw InvalidArgument(
        "q", "expected device cpu, got " + to_string(args.q.device()) + ": this build has no CUDA kernels");
  }
  KdaResult result = make_result(args);
  const KdaSizes sizes = sizes_of(args);
  parallel_for(sizes.N * sizes.HV,
               [&](std::int64_t task, int) { Head(args, task % sizes.HV).run(task / sizes.HV, result); });
  return result;
}

}  // namespace fla
