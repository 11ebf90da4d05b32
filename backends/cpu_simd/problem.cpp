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

std::int64_t offset_at(const KdaProblem& problem, std::int64_t index) {
  const std::int64_t at = index * problem.cu_seqlens_stride;
  return problem.cu_seqlens_dtype == DType::i64 ? static_cast<const std::int64_t*>(problem.cu_seqlens)[at]
                                                : static_cast<const std::int32_t*>(problem.cu_seqlens)[at];
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
  const bool packed = p.cu_seqlens != nullptr;
  const std::int64_t batch = packed ? 0 : sequence;
  const std::int64_t first = packed ? offset_at(p, sequence) : 0;
  const std::int64_t head = value_head / (p.value_heads / p.heads);
  const auto input = [&](const Rows<const std::byte>& rows, std::int64_t of_head) {
    return Head::Input{rows.at(batch, first, of_head), rows.token_stride, rows.dtype};
  };

  Head h;
  h.tokens = packed ? offset_at(p, sequence + 1) - first : p.tokens;
  h.q = input(p.q, head);
  h.k = input(p.k, head);
  h.v = input(p.v, value_head);
  h.g = input(p.g, value_head);
  h.beta = input(p.beta, value_head);
  h.o = p.o.at(batch, first, value_head);
  h.o_step = p.o.token_stride;
  h.o_dtype = p.o.dtype;
  h.initial_state = p.initial_state.at(sequence, value_head);
  h.final_state = p.final_state.at(sequence, value_head);
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

}  // namespace fla::cpu_simd
