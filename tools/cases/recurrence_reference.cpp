#include "tools/cases/recurrence_reference.h"

#include "fla/core/threads.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/reference_token.h"

namespace fla::cases {

using namespace reference;

ReferenceHead recurrence_reference_head(const RecurrenceCall& call, const LowRankPair& pair, Index sequence,
                                        Index head) {
  const Index V = call.V;
  const auto [batch, begin, end] = tokens(call, sequence);
  const Index slot = slot_read(call, sequence);
  ReferenceHead result{.o = {}, .state = starting_state(call, slot, head)};
  result.o.reserve(static_cast<std::size_t>((end - begin) * V));
  if (slot < 0) {
    result.o.resize(static_cast<std::size_t>((end - begin) * V), 0.0);
    return result;
  }
  Row keys(static_cast<std::size_t>(call.K), 0.0), read;  // keys: their sum so far
  for (Index t = begin; t < end; ++t) {
    const Token token = token_of(call, pair, batch, t, head);
    step(call, token, result.state, read);
    Row o(token.v.size(), 0.0);
    double divisor = 1e-10;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      for (std::size_t j = 0; j < o.size(); ++j) o[j] += token.q[i] * result.state[i * o.size() + j];
      keys[i] += token.k[i];
      divisor += static_cast<double>(call.scale) * token.q[i] * keys[i];
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
