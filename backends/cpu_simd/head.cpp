#include "backends/cpu_simd/head.h"

#include <cmath>
#include <cstring>

#include "fla/core/half.h"

namespace fla::cpu_simd {
namespace {

template <class T>
T read(const void* data, std::int64_t at) {
  T value;
  std::memcpy(&value, static_cast<const T*>(data) + at, sizeof value);
  return value;
}

/// A head's rows, from the sequence's first token on.
RowsOut rows_of(const common::Rows& rows, const Sequence& tokens, std::int64_t head) {
  const auto size = static_cast<std::int64_t>(size_of(rows.dtype));
  const std::int64_t at = tokens.batch * rows.batch + tokens.begin * rows.token + head * rows.head;
  return {static_cast<std::byte*>(rows.data) + at * size, static_cast<std::ptrdiff_t>(rows.token * size),
          rows.dtype};
}

Head::Input input_of(const common::Rows& rows, const Sequence& tokens, std::int64_t head) {
  const RowsOut out = rows_of(rows, tokens, head);
  return {out.row, out.step, out.dtype};
}

}  // namespace

float scalar_at(const void* data, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::bf16: return to_float(read<bf16>(data, at));
    case DType::f16: {
      const f16 half = read<f16>(data, at);
      if ((half.bits & 0x7c00u) != 0) return to_float(half);
      const float magnitude = static_cast<float>(half.bits & 0x3ffu) * 0x1p-24f;  // no denormal on the way
      return (half.bits & 0x8000u) != 0 ? -magnitude : magnitude;
    }
    default: return read<float>(data, at);
  }
}

float* state_of(const common::States& states, std::int64_t slot, std::int64_t value_head) {
  return states.data ? static_cast<float*>(states.data) + states.offset(slot, value_head) : nullptr;
}

float* Head::kept_after(std::int64_t count) const {
  const std::int64_t slot = checkpoints ? checkpoints->slot_after(sequence, count) : -1;
  return slot < 0 ? nullptr : state_of(checkpoints->of(sequence), slot, value_head);
}

Head head_of(const RecurrenceCall& call, const CallExtras& extras, std::int64_t sequence,
             std::int64_t value_head) {
  const Sequence tokens = sequence_of(call, sequence);
  const auto input = [&](const common::Rows& rows, std::int64_t of_head) {
    return input_of(rows, tokens, of_head);
  };
  const std::int64_t head = value_head / call.group;
  Head h;
  if (extras.checkpoints.every > 0) h.checkpoints = &extras.checkpoints;
  h.sequence = sequence;
  h.value_head = value_head;
  h.tokens = tokens.end - tokens.begin;
  h.q = input(call.q, head);
  h.k = input(call.k, head);
  h.v = input(call.v, value_head);
  h.g = input(call.g, value_head);
  h.beta = input(call.beta, value_head);
  h.a = input(extras.pair.a, head);
  h.b = input(extras.pair.b, head);
  h.gates = !call.g.data ? 0 : call.gate_kind == GateKind::channel ? static_cast<std::size_t>(call.K) : 1;
  if (call.gate_kind == GateKind::head && h.gates == 0) h.fixed_gate = head_decay(call, value_head);
  const RowsOut o = rows_of(call.o, tokens, value_head);
  h.o = o.row;
  h.o_step = o.step;
  h.o_dtype = o.dtype;
  const auto [read, write] = slots_of(call, extras.accepted, sequence);
  h.skipped = read < 0;
  if (!h.skipped) h.initial_state = state_of(call.initial_state, read, value_head);
  if (!h.skipped && write >= 0) h.final_state = state_of(call.final_state, write, value_head);
  if (call.A_log.data)
    h.gate_rate = std::exp(scalar_at(call.A_log.data, call.A_log.dtype, value_head * call.A_log.head));
  if (call.dt_bias.data) {
    h.dt_bias = call.dt_bias;
    h.dt_bias.data = static_cast<std::byte*>(call.dt_bias.data) +
                     value_head * call.dt_bias.head * static_cast<std::int64_t>(size_of(call.dt_bias.dtype));
  }
  return h;
}

Gradients gradients_of(const BackwardCall& call, std::int64_t sequence, std::int64_t value_head) {
  const Sequence tokens = sequence_of(call.call, sequence);
  const std::int64_t key_head = value_head / call.call.group;
  return {.do_ = input_of(call.do_, tokens, value_head),
          .dq = rows_of(call.dq, tokens, key_head),
          .dk = rows_of(call.dk, tokens, key_head),
          .dv = rows_of(call.dv, tokens, value_head),
          .dg = rows_of(call.dg, tokens, value_head),
          .dbeta = rows_of(call.dbeta, tokens, value_head)};
}

void store_zeros(const Head& head, std::size_t first, std::size_t last) {
  const std::size_t size = size_of(head.o_dtype);
  for (std::int64_t t = 0; t < head.tokens; ++t)
    std::memset(head.o + t * head.o_step + first * size, 0, (last - first) * size);
}

}  // namespace fla::cpu_simd
