#pragma once

#include "fla/core/arguments.h"
#include "fla/core/device.h"
#include "fla/core/tensor.h"

/// Packed sequences and pools of states, for every op that has them; fla/ops/recurrence/recurrence.h has the
/// contract.
namespace fla::common {

inline const TensorView kNoIndex{};

/// What a call says about its sequences and their states.
struct SequenceArguments {
  const TensorView &cu_seqlens, &state_indices, &state_write_indices, &initial_state, &final_state;
  bool output_final_state;
  Device device;
  Stream stream;
  const TensorView &checkpoint_indices = kNoIndex, &num_accepted_tokens = kNoIndex;
  const TensorView &ring_begin = kNoIndex, &ring_end = kNoIndex;
};

/// Throws InvalidArgument unless cu_seqlens and the indices of slots are given with what they need and hold
/// what the contract says. `sizes` are those of a call that its table finds right. Contents on a device
/// are not looked at, or, with FLA_CHECK_INDICES=1 and outside a graph capture, copied to the host first.
/// Allocates nothing for a right call after the first of its size on a thread, unless it copies.
void check_indices(const SequenceArguments& args, const AxisSizes& sizes);

/// Makes the tokens behind the last sequence, in `tensor` of [B, T, …], zeros where the host can read where
/// they begin: kernels write the tokens of sequences.
void clear_behind_sequences(const TensorView& tensor, const TensorView& cu_seqlens, Stream stream);

}  // namespace fla::common
