#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/cases/recurrence_reference.h"
#include "tools/cases/reference_token.h"

namespace fla::cases {

using namespace reference;

namespace {

double dot(const Row& x, const Row& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

/// S x, S [K, V].
Row times(const Row& S, const Row& x) {
  Row y(S.size() / x.size());
  const double* of = S.data();
  for (double& sum : y) {
    for (const double value : x) sum += *of++ * value;
  }
  return y;
}
/// S^T x
Row transposed_times(const Row& S, const Row& x) {
  Row y(S.size() / x.size());
  const double* of = S.data();
  for (const double value : x) {
    for (double& sum : y) sum += *of++ * value;
  }
  return y;
}
/// S += x y^T
void add_outer(Row& S, const Row& x, const Row& y) {
  double* of = S.data();
  for (const double left : x) {
    for (const double right : y) *of++ += left * right;
  }
}
/// diag(x) S
Row scaled_rows(const Row& x, Row S) {
  double* of = S.data();
  for (const double factor : x) {
    for (std::size_t j = 0; j < S.size() / x.size(); ++j) *of++ *= factor;
  }
  return S;
}
/// The sums of the rows of A * B, [K, V].
Row row_products(const Row& A, const Row& B, std::size_t K) {
  Row sums(K);
  for (std::size_t i = 0, at = 0; i < K; ++i) {
    for (std::size_t j = 0; j < A.size() / K; ++j, ++at) sums[i] += A[at] * B[at];
  }
  return sums;
}
void add(Row& x, double factor, const Row& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
}
Row scaled(double factor, Row x) {
  for (double& value : x) value *= factor;
  return x;
}

/// The gradients of one value head of one sequence: those of its tokens, and of the state that it starts
/// from.
struct HeadGradients {
  std::vector<Token> tokens;
  Row state;
};

/// What the tokens after one leave for it: the gradients of the state, and with `normalize` of the sum of
/// keys.
struct Later {
  Row dS, dkeys;
};

/// A token as it was on the way forward: the states before and after it, what it read, the keys so far.
struct Passed {
  const Token& token;
  const Row &before, &after, &read, &keys;
};

/// The gradients of one token; `later` becomes what it leaves in its turn. `E`: scale times its row of do.
Token token_gradients(const RecurrenceCall& call, const Passed& passed, Row E, Later& later) {
  const auto& [token, before, after, read, keys] = passed;
  auto& [dS, dkeys] = later;
  const double scale = call.scale;
  Token d;
  d.q = times(after, E);
  d.k.assign(token.k.size(), 0.0);
  if (call.normalize) {
    const double divisor = scale * dot(token.q, keys) + 1e-10;
    E = scaled(1 / divisor, E);
    const double ddivisor = -dot(token.q, d.q) / (divisor * divisor);
    d.q = scaled(1 / divisor, d.q);
    add(d.q, scale * ddivisor, keys);
    add(dkeys, scale * ddivisor, token.q);
    d.k = dkeys;
  }
  add_outer(dS, token.q, E);

  Row decays = token.g;
  for (double& g : decays) g = std::exp(g);
  const Row decayed = scaled_rows(decays, before);
  d.v = transposed_times(dS, token.k);
  Row dread;
  if (call.rule == Rule::delta) {
    Row left = token.v;
    add(left, -1, read);
    add(d.k, token.beta, times(dS, left));
    d.beta = dot(d.v, left);
    d.v = scaled(token.beta, d.v);
    add(d.k, -1, times(decayed, d.v));
    add_outer(dS, token.k, scaled(-1, d.v));
  } else {
    add(d.k, 1, times(dS, token.v));
  }
  if (call.rule == Rule::low_rank) {
    d.b = times(dS, read);
    dread = transposed_times(dS, token.b);
    d.a = times(before, dread);
  }
  d.g = row_products(dS, decayed, token.g.size());
  dS = scaled_rows(decays, std::move(dS));
  if (call.rule == Rule::low_rank) add_outer(dS, token.a, dread);
  return d;
}

HeadGradients head_gradients(const BackwardCall& back, Index sequence, Index head) {
  const RecurrenceCall& call = back.call;
  const auto [batch, begin, end] = tokens(call, sequence);
  // Of states, those that segments of tokens begin with are kept: all of them could be gigabytes.
  constexpr std::size_t kSegment = 64;
  std::vector<Token> given;
  std::vector<Row> starts, keys;
  Row state = starting_state(call, sequence, head), read, sum(static_cast<std::size_t>(call.K), 0.0);
  for (Index t = begin; t < end; ++t) {
    if (given.size() % kSegment == 0) starts.push_back(state);
    given.push_back(token_of(call, back.pair, batch, t, head));
    step(call, given.back(), state, read);
    add(sum, 1, given.back().k);
    keys.push_back(sum);
  }

  HeadGradients result{std::vector<Token>(given.size()), {}};
  RecurrenceCall upstream = call;
  upstream.initial_state = back.dht;
  Later later{starting_state(upstream, sequence, head), Row(static_cast<std::size_t>(call.K), 0.0)};
  std::vector<Row> states(kSegment + 1), reads(kSegment);
  for (std::size_t segment = starts.size(); segment-- > 0;) {
    const std::size_t first = segment * kSegment, count = std::min(kSegment, given.size() - first);
    states[0] = starts[segment];
    for (std::size_t i = 0; i < count; ++i) {
      states[i + 1] = states[i];
      step(call, given[first + i], states[i + 1], reads[i]);
    }
    for (std::size_t i = count; i-- > 0;) {
      const std::size_t t = first + i;
      const Row E = row(back.do_, batch, begin + static_cast<Index>(t), head, call.V);
      result.tokens[t] = token_gradients(call, {given[t], states[i], states[i + 1], reads[i], keys[t]},
                                         scaled(call.scale, E), later);
    }
  }
  result.state = later.dS;
  return result;
}

/// Of y = x / sqrt(sum(x^2) + 1e-6).
Row through_norm(const Row& x, const Row& dy) {
  const double length = std::sqrt(dot(x, x) + 1e-6);
  Row dx = scaled(1 / length, dy);
  add(dx, -dot(x, dy) / (length * length * length), x);
  return dx;
}

class Sum {
 public:
  explicit Sum(std::vector<double>& to, bool there, Index size) : to_(to) {
    if (there) to_.assign(static_cast<std::size_t>(size), 0.0);
  }
  void add(Index at, const Row& values) const {
    if (to_.empty()) return;
    for (std::size_t i = 0; i < values.size(); ++i) to_[static_cast<std::size_t>(at) + i] += values[i];
  }

 private:
  std::vector<double>& to_;
};

}  // namespace

GradientReference gradient_reference(const BackwardCall& back) {
  const RecurrenceCall& call = back.call;
  const Index N = call.N, T = call.T, HV = call.HV, K = call.K, V = call.V, H = HV / call.group;
  const Index rows = (call.cu_seqlens.data ? 1 : N) * T;
  const bool by_channel = call.gate_kind == GateKind::channel, by_head = call.gate_kind == GateKind::head;
  const Index width = by_channel ? K : 1;
  GradientReference reference;
  const Sum dq(reference.dq, true, rows * H * K), dk(reference.dk, true, rows * H * K),
      dv(reference.dv, true, rows * HV * V), dg(reference.dg, call.g.data && !by_head, rows * HV * width),
      dg_gamma(reference.dg_gamma, call.g.data && by_head, HV),
      dbeta(reference.dbeta, call.beta.data != nullptr, rows * HV),
      da(reference.da, back.pair.a.data != nullptr, rows * H * K),
      db(reference.db, back.pair.b.data != nullptr, rows * H * K),
      dinitial_state(reference.dinitial_state, call.initial_state.data != nullptr, N * HV * K * V),
      dA_log(reference.dA_log, call.A_log.data != nullptr, HV),
      ddt_bias(reference.ddt_bias, call.dt_bias.data != nullptr, HV * width);
  for (Index n = 0; n < N; ++n) {
    const Tokens range = tokens(call, n);
    const Index batch = range.batch, begin = range.begin, end = range.end;
    for (Index head = 0; head < HV; ++head) {
      const Index key_head = head / call.group;
      const HeadGradients d = head_gradients(back, n, head);
      for (Index t = begin; t < end; ++t) {
        const Token& token = d.tokens[static_cast<std::size_t>(t - begin)];
        const Index at = batch * T + t, key_at = (at * H + key_head) * K, value_at = at * HV + head;
        const auto key_row = [&](const common::Rows& x, const Row& dy) {
          return call.l2norm ? through_norm(row(x, batch, t, key_head, K), dy) : dy;
        };
        dq.add(key_at, key_row(call.q, token.q));
        dk.add(key_at, key_row(call.k, token.k));
        da.add(key_at, token.a);
        db.add(key_at, token.b);
        dv.add(value_at * V, token.v);
        if (call.beta.data) {
          const double in = row(call.beta, batch, t, head, 1)[0], twice = call.neg_eigval ? 2 : 1;
          dbeta.add(value_at, {token.beta * (call.beta_sigmoid ? twice * sigmoid(in) * sigmoid(-in) : 1)});
        }
        if (!call.g.data) continue;
        Row gradient = token.g;
        if (!by_channel) gradient = {std::accumulate(gradient.begin(), gradient.end(), 0.0)};
        if (by_head) {
          dg_gamma.add(head, gradient);
          continue;
        }
        if (call.gate != common::GateInput::given) {
          const Row raw = row(call.g, batch, t, head, width);
          const double rate = call.A_log.data ? std::exp(parameter(call.A_log, head, 0)) : 1;
          for (Index c = 0; c < width; ++c) {
            const double x =
                raw[static_cast<std::size_t>(c)] + (call.dt_bias.data ? parameter(call.dt_bias, head, c) : 0);
            double& dx = gradient[static_cast<std::size_t>(c)];
            if (call.gate == common::GateInput::bounded) {
              const double slope =
                  static_cast<double>(call.lower_bound) * sigmoid(rate * x) * sigmoid(-rate * x);
              dA_log.add(head, {dx * slope * rate * x});
              dx *= slope * rate;
            } else {
              dA_log.add(head, {dx * -rate * softplus(x)});
              dx *= -rate * sigmoid(x);
            }
          }
          ddt_bias.add(head * width, gradient);
        }
        dg.add(value_at * width, gradient);
      }
      Row state = d.state;
      if (call.state_v_first) {
        for (Index i = 0; i < K * V; ++i)
          state[static_cast<std::size_t>(i % V * K + i / V)] = d.state[static_cast<std::size_t>(i)];
      }
      dinitial_state.add((n * HV + head) * K * V, state);
    }
  }
  return reference;
}

}  // namespace fla::cases
