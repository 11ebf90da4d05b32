#pragma once

#include <cstddef>
#include <cstdint>

#include "fla/core/dtype.h"

namespace fla::cpu_simd {

/// Rows of contiguous channels, one for each (batch, token, head). Strides are in bytes.
template <class Byte>
struct Rows {
  Byte* data = nullptr;
  DType dtype = DType::f32;
  std::ptrdiff_t batch_stride = 0, token_stride = 0, head_stride = 0;

  Byte* at(std::int64_t batch, std::int64_t token, std::int64_t head) const {
    return data + batch * batch_stride + token * token_stride + head * head_stride;
  }
};

/// f32 states, one contiguous [K, V] or [V, K] block for each (slot, value head). Strides are in elements.
template <class Float>
struct States {
  Float* data = nullptr;
  std::ptrdiff_t slot_stride = 0, head_stride = 0;

  Float* at(std::int64_t slot, std::int64_t head) const {
    return data ? data + slot * slot_stride + head * head_stride : nullptr;
  }
};

/// Whole numbers, i32 or i64; absent when data is null. The stride is in elements.
struct Indices {
  const void* data = nullptr;
  DType dtype = DType::i64;
  std::ptrdiff_t stride = 1;

  std::int64_t operator[](std::int64_t i) const {
    return dtype == DType::i64 ? static_cast<const std::int64_t*>(data)[i * stride]
                               : static_cast<const std::int32_t*>(data)[i * stride];
  }
};

/// Parameters of the value heads, any float dtype; absent when data is null. Strides are in bytes.
struct Parameters {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::ptrdiff_t head_stride = 0, channel_stride = 0;
};

/// A call of kda as the kernels see it: valid by now, nothing left to check.
struct KdaProblem {
  std::int64_t tokens = 0;  // of a batch row; of all sequences together when they are packed
  std::int64_t heads = 0, value_heads = 0;
  std::int64_t sequences = 0;
  std::int64_t K = 0, V = 0;

  Rows<const std::byte> q, k, v, g, beta;
  Rows<std::byte> o;

  Indices cu_seqlens;  // sequences + 1 offsets into the tokens of batch row 0; absent when not packed

  // Slots that sequences read and write; absent: slot n is that of sequence n, or the one that it reads.
  Indices read_slots, write_slots;
  States<const float> initial_state;  // zero when data is null
  States<float> final_state;          // not stored when data is null; may be the same memory as initial_state
  bool state_v_first = false;

  float scale = 1;
  bool l2norm = false;        // of q and k
  bool gate = false;          // g is the input of the gate, not its value
  bool bounded_gate = false;  // lower_bound * sigmoid instead of -softplus
  float lower_bound = 0;
  Parameters A_log, dt_bias;
  bool beta_sigmoid = false;
  float beta_gain = 1;  // multiplies beta

  std::int64_t read_slot(std::int64_t sequence) const {
    return read_slots.data ? read_slots[sequence] : sequence;
  }
};

/// One value head of one sequence: everything a kernel needs to walk over its tokens.
struct Head {
  struct Input {
    const std::byte* row = nullptr;  // of token 0
    std::ptrdiff_t step = 0;         // bytes from a token to the next
    DType dtype = DType::f32;

    const std::byte* at(std::int64_t token) const { return row + token * step; }
  };

  std::int64_t tokens = 0;
  bool skipped = false;  // nothing is read, outputs are zeros
  Input q, k, v, g, beta;
  std::byte* o = nullptr;
  std::ptrdiff_t o_step = 0;
  DType o_dtype = DType::f32;
  const float* initial_state = nullptr;
  float* final_state = nullptr;
  float gate_rate = 1;  // exp(A_log), or 1
  Parameters dt_bias;   // of this head; data is null when absent
};

Head head_of(const KdaProblem& problem, std::int64_t sequence, std::int64_t value_head);

/// Columns [first, last) of the outputs of a head that is skipped.
void store_zeros(const Head& head, std::size_t first, std::size_t last);

/// One element of any float dtype.
float scalar_at(const std::byte* element, DType dtype);

}  // namespace fla::cpu_simd
