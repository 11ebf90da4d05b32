#include "tools/cases/recurrence_reference.h"

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

Tokens tokens(const RecurrenceCall& call, Index sequence) {
  if (!call.cu_seqlens.data) return {sequence, 0, call.T};
  return {0, call.cu_seqlens[sequence], call.cu_seqlens[sequence + 1]};
}

Index slot_read(const RecurrenceCall& call, Index sequence) {
  return call.read_slots.data ? call.read_slots[sequence] : sequence;
}

Index slot_written(const RecurrenceCall& call, Index sequence) {
  const Index read = slot_read(call, sequence);
  return read >= 0 && call.write_slots.data ? call.write_slots[sequence] : read;
}

/// The channels of [batch, token, head, :].
Row row(const common::Rows& rows, Index batch, Index token, Index head, Index channels) {
  Row values(static_cast<std::size_t>(channels));
  const Index at = batch * rows.batch + token * rows.token + head * rows.head;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = element(rows.data, rows.dtype, at + static_cast<Index>(i) * rows.channel);
  return values;
}

void normalise(Row& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  for (double& value : x) value /= std::sqrt(sum + 1e-6);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

double parameter(const common::Parameters& parameters, Index head, Index channel) {
  return element(parameters.data, parameters.dtype, head * parameters.head + channel * parameters.channel);
}

/// The log-decay of every channel.
Row gates(const RecurrenceCall& call, Index batch, Index token, Index head) {
  const bool by_channel = call.gate_kind == GateKind::channel;
  if (call.gate_kind == GateKind::none) return Row(static_cast<std::size_t>(call.K), 0.0);
  Row g{0};
  if (call.head_gate == HeadGate::retention) {
    g[0] = std::log1p(-std::exp2(-5.0 - static_cast<double>(head)));
  } else if (call.head_gate == HeadGate::slopes) {
    g[0] = -static_cast<double>(call.head_slope) * static_cast<double>(head);
  } else {
    g = row(call.g, batch, token, head, by_channel ? call.K : 1);
  }
  if (call.gate != common::GateInput::given) {
    const double rate = call.A_log.data ? std::exp(parameter(call.A_log, head, 0)) : 1;
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double x = g[i] + (call.dt_bias.data ? parameter(call.dt_bias, head, static_cast<Index>(i)) : 0);
      g[i] = call.gate == common::GateInput::bounded
                 ? static_cast<double>(call.lower_bound) * sigmoid(rate * x)
                 : -rate * softplus(x);
    }
  }
  if (!by_channel) g.resize(static_cast<std::size_t>(call.K), g[0]);
  return g;
}

double beta_at(const RecurrenceCall& call, Index batch, Index token, Index head) {
  double value = row(call.beta, batch, token, head, 1)[0];
  if (call.beta_sigmoid) {
    value = sigmoid(value);
    if (call.neg_eigval) value *= 2;
  }
  return value;
}

Row starting_state(const RecurrenceCall& call, Index slot, Index head) {
  const Index K = call.K, V = call.V;
  Row state(static_cast<std::size_t>(K * V), 0.0);
  const common::States& given = call.initial_state;
  if (!given.data || slot < 0) return state;
  for (Index k = 0; k < K; ++k) {
    for (Index v = 0; v < V; ++v) {
      const Index at = slot * given.slot + head * given.head + k * given.key + v * given.value;
      state[static_cast<std::size_t>(k * V + v)] = element(given.data, given.dtype, at);
    }
  }
  return state;
}

}  // namespace

ReferenceHead recurrence_reference_head(const RecurrenceCall& call, const LowRankPair& pair, Index sequence,
                                        Index head) {
  const Index V = call.V, key_head = head / call.group;
  const auto [batch, begin, end] = tokens(call, sequence);

  const Index slot = slot_read(call, sequence);
  ReferenceHead result{.o = {}, .state = starting_state(call, slot, head)};
  result.o.reserve(static_cast<std::size_t>((end - begin) * V));
  if (slot < 0) {
    result.o.resize(static_cast<std::size_t>((end - begin) * V), 0.0);
    return result;
  }
  Row keys(static_cast<std::size_t>(call.K), 0.0);  // their sum so far
  for (Index t = begin; t < end; ++t) {
    Row q = row(call.q, batch, t, key_head, call.K), k = row(call.k, batch, t, key_head, call.K);
    const Row g = gates(call, batch, t, head);
    const Row v = row(call.v, batch, t, head, V);
    if (call.l2norm) {
      normalise(q);
      normalise(k);
    }

    Row a, b;
    if (call.rule == Rule::low_rank) {
      a = row(pair.a, batch, t, key_head, call.K);
      b = row(pair.b, batch, t, key_head, call.K);
    }
    Row read(v.size(), 0.0), o(v.size(), 0.0);  // read: a^T S before it decays, or k^T S after
    for (std::size_t i = 0; i < k.size(); ++i) {
      double* S = &result.state[i * v.size()];
      const double decay = std::exp(g[i]);
      for (std::size_t j = 0; j < v.size(); ++j) {
        if (call.rule == Rule::low_rank) read[j] += a[i] * S[j];
        S[j] *= decay;
        if (call.rule == Rule::delta) read[j] += k[i] * S[j];
      }
    }
    Row u = v;
    if (call.rule == Rule::delta) {
      const double beta = beta_at(call, batch, t, head);
      for (std::size_t j = 0; j < v.size(); ++j) u[j] = beta * (v[j] - read[j]);
    }
    double divisor = 1e-10;
    for (std::size_t i = 0; i < k.size(); ++i) {
      double* S = &result.state[i * v.size()];
      for (std::size_t j = 0; j < v.size(); ++j) {
        S[j] += k[i] * u[j];
        if (call.rule == Rule::low_rank) S[j] += b[i] * read[j];
        o[j] += q[i] * S[j];
      }
      keys[i] += k[i];
      divisor += static_cast<double>(call.scale) * q[i] * keys[i];
    }
    for (const double value : o)
      result.o.push_back(static_cast<double>(call.scale) * value / (call.normalize ? divisor : 1));
  }
  return result;
}

Reference recurrence_reference(const RecurrenceCall& call, const LowRankPair& pair) {
  const Index N = call.N, T = call.T, HV = call.HV, K = call.K, V = call.V, B = call.cu_seqlens.data ? 1 : N;
  Reference reference;
  reference.o.resize(static_cast<std::size_t>(B * T * HV * V));
  reference.final_state.resize(static_cast<std::size_t>(N * HV * K * V));
  if (call.read_slots.data) {
    for (Index n = 0; n < N; ++n) reference.slots.push_back(slot_written(call, n));
  }
  parallel_for(N * HV, [&](Index task, int) {
    const Index n = task / HV, head = task % HV;
    const ReferenceHead one = recurrence_reference_head(call, pair, n, head);
    const auto [batch, begin, end] = tokens(call, n);
    for (Index t = begin; t < end; ++t) {
      for (Index v = 0; v < V; ++v) {
        reference.o[static_cast<std::size_t>(((batch * T + t) * HV + head) * V + v)] =
            one.o[static_cast<std::size_t>((t - begin) * V + v)];
      }
    }
    for (Index k = 0; k < K; ++k) {
      for (Index v = 0; v < V; ++v) {
        const Index place = call.state_v_first ? v * K + k : k * V + v;
        reference.final_state[static_cast<std::size_t>(task * K * V + place)] =
            one.state[static_cast<std::size_t>(k * V + v)];
      }
    }
  });
  return reference;
}

Errors errors_of(const TensorView& o, const TensorView& final_state, const Reference& reference) {
  Errors errors{.o = relative_error(o, reference.o)};
  if (!final_state.defined()) return errors;
  if (reference.slots.empty()) {
    errors.final_state = relative_error(final_state, reference.final_state);
    return errors;
  }
  ErrorSum sum;
  const std::size_t size = reference.final_state.size() / reference.slots.size();
  for (std::size_t n = 0; n < reference.slots.size(); ++n) {
    if (reference.slots[n] < 0) continue;
    sum.add(final_state.slice(0, reference.slots[n], 1),
            std::span(reference.final_state).subspan(n * size, size));
  }
  errors.final_state = sum.relative();
  return errors;
}

}  // namespace fla::cases
