#pragma once

#include <cstddef>
#include <cstdint>

#include "fla/ops/recurrence/call.h"

namespace fla::cpu_simd {

using Gate = common::GateInput;
using common::Parameters;

/// Rows of a head that a kernel writes; contiguous channels.
struct RowsOut {
  std::byte* row = nullptr;  // of token 0; null: not wanted
  std::ptrdiff_t step = 0;   // bytes from a token to the next
  DType dtype = DType::f32;

  std::byte* at(std::int64_t token) const { return row + token * step; }
};

/// One value head of one sequence: everything a kernel needs to walk over its tokens.
struct Head {
  struct Input {                     // contiguous channels
    const std::byte* row = nullptr;  // of token 0
    std::ptrdiff_t step = 0;         // bytes from a token to the next
    DType dtype = DType::f32;

    const std::byte* at(std::int64_t token) const { return row + token * step; }
  };

  std::int64_t tokens = 0;
  bool skipped = false;  // nothing is read, outputs are zeros
  Input q, k, v, g, beta;
  Input a, b;  // of Rule::low_rank
  std::byte* o = nullptr;
  std::ptrdiff_t o_step = 0;
  DType o_dtype = DType::f32;
  const float* initial_state = nullptr;      // contiguous, [K, V] or [V, K]; null: zeros
  float* final_state = nullptr;              // the same; null: not stored
  std::size_t gates = 0;                     // numbers of g a token: one a channel, one, or none
  float fixed_gate = 0;                      // where there are none
  float gate_rate = 1;                       // exp(A_log), or 1
  Parameters dt_bias;                        // of this head; data is null when absent
  const Checkpoints* checkpoints = nullptr;  // null: none
  std::int64_t sequence = 0, value_head = 0;

  // Where the state after so many tokens is kept, like the others; null: it is not.
  float* kept_after(std::int64_t count) const;
};

/// `extras` outlive it.
Head head_of(const RecurrenceCall& call, const CallExtras& extras, std::int64_t sequence,
             std::int64_t value_head);

/// What a value head of one sequence has of a backward call's gradients.
struct Gradients {
  Head::Input do_;
  RowsOut dq, dk, dv, dg, dbeta;
};
Gradients gradients_of(const BackwardCall& call, std::int64_t sequence, std::int64_t value_head);

/// The state of a head, f32; null where there are none.
float* state_of(const common::States& states, std::int64_t slot, std::int64_t value_head);

/// Columns [first, last) of the outputs of a head that is skipped.
void store_zeros(const Head& head, std::size_t first, std::size_t last);

/// Element `at` of any float dtype.
float scalar_at(const void* data, DType dtype, std::int64_t at = 0);

}  // namespace fla::cpu_simd
