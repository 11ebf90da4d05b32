#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "fla/ops/recurrence/call.h"
#include "tools/cases/accuracy.h"

/// What a token brings to the recurrence, in float64 and with the options of the call applied.
namespace fla::cases::reference {

using Index = std::int64_t;
using Row = std::vector<double>;

struct Tokens {
  Index batch, begin, end;
};

inline Tokens tokens(const RecurrenceCall& call, Index sequence) {
  if (!call.cu_seqlens.data) return {sequence, 0, call.T};
  return {0, call.cu_seqlens[sequence], call.cu_seqlens[sequence + 1]};
}

inline Index slot_read(const RecurrenceCall& call, const AcceptedTokens& accepted, Index sequence) {
  const Index slot = call.read_slots.data ? call.read_slots[sequence] : sequence;
  const Index tokens = slot >= 0 && accepted.count.data ? accepted.count[sequence] : 0;
  return tokens > 0 ? accepted.slots[sequence][tokens - 1] : slot;
}

inline Index slot_written(const RecurrenceCall& call, const AcceptedTokens& accepted, Index sequence) {
  const Index read = slot_read(call, accepted, sequence);
  if (read < 0) return read;
  if (call.write_slots.data) return call.write_slots[sequence];
  return accepted.count.data ? -1 : read;
}

/// The channels of [batch, token, head, :].
inline Row row(const common::Rows& rows, Index batch, Index token, Index head, Index channels) {
  Row values(static_cast<std::size_t>(channels));
  const Index at = batch * rows.batch + token * rows.token + head * rows.head;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = element(rows.data, rows.dtype, at + static_cast<Index>(i) * rows.channel);
  return values;
}

inline void normalise(Row& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  for (double& value : x) value /= std::sqrt(sum + 1e-6);
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

inline double parameter(const common::Parameters& parameters, Index head, Index channel) {
  return element(parameters.data, parameters.dtype, head * parameters.head + channel * parameters.channel);
}

/// The log-decay of every channel.
inline Row gates(const RecurrenceCall& call, Index batch, Index token, Index head) {
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

inline double beta_at(const RecurrenceCall& call, Index batch, Index token, Index head) {
  double value = row(call.beta, batch, token, head, 1)[0];
  if (call.beta_sigmoid) {
    value = sigmoid(value);
    if (call.neg_eigval) value *= 2;
  }
  return value;
}

inline Row starting_state(const RecurrenceCall& call, Index slot, Index head) {
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

struct Token {
  Row q, k, v, g, a, b;
  double beta = 0;
};

inline Token token_of(const RecurrenceCall& call, const LowRankPair& pair, Index batch, Index t, Index head) {
  const Index key_head = head / call.group;
  Token token{.q = row(call.q, batch, t, key_head, call.K),
              .k = row(call.k, batch, t, key_head, call.K),
              .v = row(call.v, batch, t, head, call.V),
              .g = gates(call, batch, t, head),
              .a = {},
              .b = {}};
  if (call.l2norm) {
    normalise(token.q);
    normalise(token.k);
  }
  if (call.rule == Rule::low_rank) {
    token.a = row(pair.a, batch, t, key_head, call.K);
    token.b = row(pair.b, batch, t, key_head, call.K);
  }
  if (call.rule == Rule::delta) token.beta = beta_at(call, batch, t, head);
  return token;
}

/// Advances S, [K, V], by a token. `read` becomes a^T S before it decays, or k^T S after.
inline void step(const RecurrenceCall& call, const Token& token, Row& state, Row& read) {
  const std::size_t V = token.v.size();
  read.assign(V, 0.0);
  for (std::size_t i = 0; i < token.k.size(); ++i) {
    double* S = &state[i * V];
    const double decay = std::exp(token.g[i]);
    for (std::size_t j = 0; j < V; ++j) {
      if (call.rule == Rule::low_rank) read[j] += token.a[i] * S[j];
      S[j] *= decay;
      if (call.rule == Rule::delta) read[j] += token.k[i] * S[j];
    }
  }
  for (std::size_t i = 0; i < token.k.size(); ++i) {
    double* S = &state[i * V];
    for (std::size_t j = 0; j < V; ++j) {
      S[j] += token.k[i] * (call.rule == Rule::delta ? token.beta * (token.v[j] - read[j]) : token.v[j]);
      if (call.rule == Rule::low_rank) S[j] += token.b[i] * read[j];
    }
  }
}

}  // namespace fla::cases::reference
