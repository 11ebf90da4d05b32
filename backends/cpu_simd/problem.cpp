#include "backends/cpu_simd/problem.h"

#include <cmath>
#include <cstring>

#include "fla/core/half.h"

namespace fla::cpu_simd {
namespace {

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

float scalar_at(const std::byte* element, DType dtype) {
  switch (dtype) {
    case DType::bf16: return to_float(read<bf16>(element));
    case DType::f16: {
      const f16 half = read<f16>(element);
      if ((half.bits & 0x7c00u) != 0) return to_float(half);
      const float magnitude = static_cast<float>(half.bits & 0x3ffu) * 0x1p-24f;  // no denormal on the way
      return (half.bits & 0x8000u) != 0 ? -magnitude : magnitude;
    }
    default: return read<float>(element);
  }
}

Head head_of(const KdaProblem& p, std::int64_t sequence, std::int64_t value_head) {
  const bool packed = p.cu_seqlens.data != nullptr;
  const std::int64_t batch = packed ? 0 : sequence;
  const std::int64_t first = packed ? p.cu_seqlens[sequence] : 0;
  const std::int64_t head = value_head / (p.value_heads / p.heads);
  const auto input = [&](const Rows<const std::byte>& rows, std::int64_t of_head) {
    return Head::Input{rows.at(batch, first, of_head), rows.token_stride, rows.dtype};
  };

  Head h;
  h.tokens = packed ? p.cu_seqlens[sequence + 1] - first : p.tokens;
  h.q = input(p.q, head);
  h.k = input(p.k, head);
  h.v = input(p.v, value_head);
  h.g = input(p.g, value_head);
  h.beta = input(p.beta, value_head);
  h.o = p.o.at(batch, first, value_head);
  h.o_step = p.o.token_stride;
  h.o_dtype = p.o.dtype;
  const std::int64_t read = p.read_slot(sequence);
  const std::int64_t write = p.write_slots.data ? p.write_slots[sequence] : read;
  h.skipped = read < 0;
  if (!h.skipped) h.initial_state = p.initial_state.at(read, value_head);
  if (!h.skipped && write >= 0) h.final_state = p.final_state.at(write, value_head);
  if (p.gate) {
    if (p.A_log.data)
      h.gate_rate = std::exp(scalar_at(p.A_log.data + value_head * p.A_log.head_stride, p.A_log.dtype));
    if (p.dt_bias.data) {
      h.dt_bias = p.dt_bias;
      h.dt_bias.data += value_head * p.dt_bias.head_stride;
    }
  }
  return h;
}

void store_zeros(const Head& head, std::size_t first, std::size_t last) {
  const std::size_t size = size_of(head.o_dtype);
  for (std::int64_t t = 0; t < head.tokens; ++t)
    std::memset(head.o + t * head.o_step + first * size, 0, (last - first) * size);
}

}  // namespace fla::cpu_simd
