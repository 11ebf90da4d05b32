#include "tools/cases/kda_reference.h"

#include <cmath>

#include "fla/core/threads.h"
#include "tools/cases/accuracy.h"

namespace fla::cases {
namespace {

using Index = std::int64_t;
using Row = std::vector<double>;

struct Tokens {
  Index batch, begin, end;
};

Index index(const TensorView& indices, Index i) {
  const Index offset = i * indices.stride(0);
  return indices.dtype() == DType::i32 ? indices.as<std::int32_t>()[offset]
                                       : indices.as<std::int64_t>()[offset];
}

Index sequences(const KdaArgs& args) {
  return args.cu_seqlens.defined() ? args.cu_seqlens.size(0) - 1 : args.q.size(0);
}

Tokens tokens(const KdaArgs& args, Index sequence) {
  if (!args.cu_seqlens.defined()) return {sequence, 0, args.q.size(1)};
  return {0, index(args.cu_seqlens, sequence), index(args.cu_seqlens, sequence + 1)};
}

Index slot_read(const KdaArgs& args, Index sequence) {
  return args.state_indices.defined() ? index(args.state_indices, sequence) : sequence;
}

Index slot_written(const KdaArgs& args, Index sequence) {
  const Index read = slot_read(args, sequence);
  return read >= 0 && args.state_write_indices.defined() ? index(args.state_write_indices, sequence) : read;
}

/// The channels of tensor[batch, token, head, :].
Row row(const TensorView& tensor, Index batch, Index token, Index head) {
  Row values(static_cast<std::size_t>(tensor.size(3)));
  const Index at = batch * tensor.stride(0) + token * tensor.stride(1) + head * tensor.stride(2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = element(tensor, at + static_cast<Index>(i) * tensor.stride(3));
  }
  return values;
}

void normalise(Row& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  for (double& value : x) value /= std::sqrt(sum + 1e-6);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

double dt_bias(const KdaArgs& args, Index head, Index channel) {
  const TensorView& bias = args.dt_bias;
  if (!bias.defined()) return 0;
  if (bias.rank() == 1) return element(bias, (head * args.q.size(3) + channel) * bias.stride(0));
  return element(bias, head * bias.stride(0) + channel * bias.stride(1));
}

/// Raw values of g become log-decays.
void apply_gate(const KdaArgs& args, Index head, Row& g) {
  if (!args.use_gate_in_kernel) return;
  const double rate = args.A_log.defined() ? std::exp(element(args.A_log, head * args.A_log.stride(0))) : 1;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double x = g[i] + dt_bias(args, head, static_cast<Index>(i));
    g[i] =
        args.lower_bound ? static_cast<double>(*args.lower_bound) * sigmoid(rate * x) : -rate * softplus(x);
  }
}

double beta_at(const KdaArgs& args, Index batch, Index token, Index head) {
  const TensorView& beta = args.beta;
  double value = element(beta, batch * beta.stride(0) + token * beta.stride(1) + head * beta.stride(2));
  if (args.use_beta_sigmoid_in_kernel) {
    value = sigmoid(value);
    if (args.allow_neg_eigval) value *= 2;
  }
  return value;
}

Row starting_state(const KdaArgs& args, Index slot, Index head, Index K, Index V) {
  Row state(static_cast<std::size_t>(K * V), 0.0);
  const TensorView& given = args.initial_state;
  if (!given.defined() || slot < 0) return state;
  const int k_axis = args.state_v_first ? 3 : 2, v_axis = args.state_v_first ? 2 : 3;
  for (Index k = 0; k < K; ++k) {
    for (Index v = 0; v < V; ++v) {
      const Index at = slot * given.stride(0) + head * given.stride(1) + k * given.stride(k_axis) +
                       v * given.stride(v_axis);
      state[static_cast<std::size_t>(k * V + v)] = element(given, at);
    }
  }
  return state;
}

}  // namespace

KdaHead kda_reference_head(const KdaArgs& args, Index sequence, Index head) {
  const Index K = args.q.size(3), V = args.v.size(3);
  const Index key_head = head / (args.v.size(2) / args.q.size(2));
  const double scale = args.scale ? static_cast<double>(*args.scale) : 1 / std::sqrt(static_cast<double>(K));
  const auto [batch, begin, end] = tokens(args, sequence);

  const Index slot = slot_read(args, sequence);
  KdaHead result{.o = {}, .state = starting_state(args, slot, head, K, V)};
  result.o.reserve(static_cast<std::size_t>((end - begin) * V));
  if (slot < 0) {
    result.o.resize(static_cast<std::size_t>((end - begin) * V), 0.0);
    return result;
  }
  for (Index t = begin; t < end; ++t) {
    Row q = row(args.q, batch, t, key_head), k = row(args.k, batch, t, key_head);
    Row g = row(args.g, batch, t, head);
    const Row v = row(args.v, batch, t, head);
    const double beta = beta_at(args, batch, t, head);
    if (args.use_qk_l2norm_in_kernel) {
      normalise(q);
      normalise(k);
    }
    apply_gate(args, head, g);

    Row u(v.size(), 0.0), o(v.size(), 0.0);
    for (std::size_t i = 0; i < k.size(); ++i) {
      double* S = &result.state[i * v.size()];
      const double decay = std::exp(g[i]);
      for (std::size_t j = 0; j < v.size(); ++j) {
        S[j] *= decay;
        u[j] += k[i] * S[j];
      }
    }
    for (std::size_t j = 0; j < v.size(); ++j) u[j] = beta * (v[j] - u[j]);
    for (std::size_t i = 0; i < k.size(); ++i) {
      double* S = &result.state[i * v.size()];
      for (std::size_t j = 0; j < v.size(); ++j) {
        S[j] += k[i] * u[j];
        o[j] += q[i] * S[j];
      }
    }
    for (const double value : o) result.o.push_back(scale * value);
  }
  return result;
}

KdaReference kda_reference(const KdaArgs& args) {
  const Index N = sequences(args), T = args.q.size(1), HV = args.v.size(2), K = args.q.size(3),
              V = args.v.size(3);
  KdaReference reference;
  reference.o.resize(static_cast<std::size_t>(args.q.size(0) * T * HV * V));
  reference.final_state.resize(static_cast<std::size_t>(N * HV * K * V));
  if (args.state_indices.defined()) {
    for (Index n = 0; n < N; ++n) reference.slots.push_back(slot_written(args, n));
  }
  parallel_for(N * HV, [&](Index task, int) {
    const Index n = task / HV, head = task % HV;
    const KdaHead one = kda_reference_head(args, n, head);
    const auto [batch, begin, end] = tokens(args, n);
    for (Index t = begin; t < end; ++t) {
      for (Index v = 0; v < V; ++v) {
        reference.o[static_cast<std::size_t>(((batch * T + t) * HV + head) * V + v)] =
            one.o[static_cast<std::size_t>((t - begin) * V + v)];
      }
    }
    for (Index k = 0; k < K; ++k) {
      for (Index v = 0; v < V; ++v) {
        const Index place = args.state_v_first ? v * K + k : k * V + v;
        reference.final_state[static_cast<std::size_t>(task * K * V + place)] =
            one.state[static_cast<std::size_t>(k * V + v)];
      }
    }
  });
  return reference;
}

KdaErrors kda_errors(const KdaResult& result, const KdaReference& reference) {
  KdaErrors errors{.o = relative_error(result.o, reference.o)};
  if (!result.final_state.defined()) return errors;
  if (reference.slots.empty()) {
    errors.final_state = relative_error(result.final_state, reference.final_state);
    return errors;
  }
  ErrorSum sum;
  const std::size_t size = reference.final_state.size() / reference.slots.size();
  for (std::size_t n = 0; n < reference.slots.size(); ++n) {
    if (reference.slots[n] < 0) continue;
    sum.add(result.final_state.view().slice(0, reference.slots[n], 1),
            std::span(reference.final_state).subspan(n * size, size));
  }
  errors.final_state = sum.relative();
  return errors;
}

}  // namespace fla::cases
