#include "tools/cases/recurrence_reference.h"

#include <iterator>

#include "fla/core/threads.h"
#include "tools/cases/accuracy.h"
#include "tools/cases/offsets.h"
#include "tools/cases/reference_token.h"

namespace fla::cases {

using namespace reference;

ReferenceHead recurrence_reference_head(const RecurrenceCall& call, const CallExtras& extras, Index sequence,
                                        Index head) {
  const Index V = call.V;
  const auto [batch, begin, end] = tokens(call, sequence);
  const Index slot = slot_read(call, extras.accepted, sequence);
  ReferenceHead result{.o = {}, .state = starting_state(call, slot, head)};
  result.o.reserve(static_cast<std::size_t>((end - begin) * V));
  if (slot < 0) {
    result.o.resize(static_cast<std::size_t>((end - begin) * V), 0.0);
    return result;
  }
  Row keys(static_cast<std::size_t>(call.K), 0.0), read;  // keys: their sum so far
  for (Index t = begin; t < end; ++t) {
    const Token token = token_of(call, extras.pair, batch, t, head);
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
    const Checkpoints& checkpoints = extras.checkpoints;
    if (checkpoints.every > 0 && (t + 1 - begin) % checkpoints.every == 0 &&
        std::ssize(result.checkpoints) < checkpoints.count)
      result.checkpoints.push_back(result.state);
  }
  return result;
}

Reference recurrence_reference(const RecurrenceCall& call, const CallExtras& extras) {
  const Index N = call.N, T = call.T, HV = call.HV, K = call.K, V = call.V, B = call.cu_seqlens.data ? 1 : N;
  Reference reference;
  reference.o.resize(static_cast<std::size_t>(B * T * HV * V));
  reference.final_state.resize(static_cast<std::size_t>(N * HV * K * V));
  if (call.read_slots.data) {
    for (Index n = 0; n < N; ++n) reference.slots.push_back(slot_written(call, extras.accepted, n));
  }
  const Index C = extras.checkpoints.count;
  const common::IndexRows& slots = extras.checkpoints.slots;
  if (slots.first.data) {
    reference.final_state.resize(static_cast<std::size_t>((N + N * C) * HV * K * V));
    reference.slots.resize(static_cast<std::size_t>(N + N * C), -1);
  } else if (extras.checkpoints.every > 0) {
    reference.checkpoints.resize(static_cast<std::size_t>(N * C * HV * K * V));
    reference.kept.resize(static_cast<std::size_t>(N));
  }
  parallel_for(N * HV, [&](Index task, int) {
    const Index n = task / HV, head = task % HV;
    const ReferenceHead one = recurrence_reference_head(call, extras, n, head);
    const auto [batch, begin, end] = tokens(call, n);
    for (Index t = begin; t < end; ++t) {
      for (Index v = 0; v < V; ++v) {
        reference.o[static_cast<std::size_t>(((batch * T + t) * HV + head) * V + v)] =
            one.o[static_cast<std::size_t>((t - begin) * V + v)];
      }
    }
    const auto place_state = [&](const Row& state, Index at, Row& to) {
      for (Index k = 0; k < K; ++k) {
        for (Index v = 0; v < V; ++v) {
          const Index place = call.state_v_first ? v * K + k : k * V + v;
          to[static_cast<std::size_t>(at * K * V + place)] = state[static_cast<std::size_t>(k * V + v)];
        }
      }
    };
    place_state(one.state, task, reference.final_state);
    for (Index i = 0; i < std::ssize(one.checkpoints); ++i) {
      const Row& state = one.checkpoints[static_cast<std::size_t>(i)];
      if (!slots.first.data) {
        place_state(state, (n * C + i) * HV + head, reference.checkpoints);
        continue;
      }
      const Index at = N + n * C + i;
      place_state(state, at * HV + head, reference.final_state);
      if (head == 0) reference.slots[static_cast<std::size_t>(at)] = slots[n][i];
    }
    if (head == 0 && !reference.kept.empty())
      reference.kept[static_cast<std::size_t>(n)] = std::ssize(one.checkpoints);
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

double checkpoint_error(const TensorView& checkpoints, const Reference& reference) {
  ErrorSum sum;
  for (std::size_t n = 0; n < reference.kept.size(); ++n) {
    const std::size_t size = reference.checkpoints.size() / reference.kept.size(),
                      kept = static_cast<std::size_t>(reference.kept[n]);
    if (kept == 0) continue;
    const TensorView own = checkpoints.slice(0, static_cast<Index>(n), 1);
    sum.add(own.slice(1, 0, reference.kept[n]),
            std::span(reference.checkpoints)
                .subspan(n * size, size / static_cast<std::size_t>(checkpoints.size(1)) * kept));
  }
  return sum.relative();
}

bool rest_holds(const TensorView& checkpoints, const Reference& reference, double value) {
  bool holds = true;
  for (std::size_t n = 0; n < reference.kept.size(); ++n) {
    const std::int64_t kept = reference.kept[n];
    const TensorView rest =
        checkpoints.slice(0, static_cast<std::int64_t>(n), 1).slice(1, kept, checkpoints.size(1) - kept);
    for_each_offset(rest, [&](std::int64_t offset) { holds &= element(rest, offset) == value; });
  }
  return holds;
}

}  // namespace fla::cases
