#pragma once

#include <cstddef>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/core/workspace.h"
#include "fla/dispatch/backend/backend.h"
#include "fla/ops/recurrence/parts.h"

/// The causal convolution that q, k and v go through before a recurrence: every channel by itself, along the
/// tokens of a sequence,
///
///     o_t = bias + sum over j of weight_j * x_(t - W + 1 + j),  j from 0 to W - 1
///     o_t = o_t * sigmoid(o_t)                                  with use_silu
///
/// where inputs before a sequence's first token come from initial_state, or are zeros.
///
/// Sizes: B batches of T tokens, D channels, W from 2 to 4 tokens that the convolution reaches over. A state
/// is the last W - 1 inputs of a sequence, the newest last, [D, W - 1]; a sequence shorter than that keeps
/// the newest of its first state. A decode step is a call with T = 1 (a sequence a batch) whose final_state
/// is its initial_state.
///
/// Packed sequences, pools of states, strides, indices on the device, tokens behind the last sequence,
/// threads, streams, graphs and errors are as fla/ops/recurrence/recurrence.h says. Arithmetic is in f32, in
/// the same order for a token in whatever call it is: a prompt cut into calls that hand the state on gives
/// the bits of one call, if the state's dtype holds x exactly. Where a call of the original kernels throws,
/// states are as they were.
namespace fla {

// One line an argument, as in fla/ops/recurrence/parts.h.
#define FLA_SHORT_CONV_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG)                              \
  TENSOR(x, required, kFloatTypes, "B T D", "inputs")                                                       \
  TENSOR(weight, required, kFloatTypes, "D W", "factors of a token and of those before it, its own last")   \
  TENSOR(bias, optional, kFloatTypes, "D", "added to a channel's sums")                                     \
  TENSOR(initial_state, optional, kFloatTypes, "P D W-1", "inputs before the first token, the newest last") \
  FLAG(output_final_state, "return the last inputs of every sequence")                                      \
  FLAG(use_silu, "o is o * sigmoid(o)")                                                                     \
  FLA_PART_SEQUENCES(INDEX, FLA_KEEP)                                                                       \
  OUTPUT(out, kFloatTypes, "B T D", "", "memory for o, dtype of x")                                         \
  OUTPUT(final_state, kFloatTypes, "P D W-1", "initial_state",                                              \
         "memory for the final state, which is then returned; may be initial_state itself")

struct ShortConvResult {
  Tensor o;            ///< [B, T, D], dtype of x
  Tensor final_state;  ///< [P, D, W - 1]; empty unless it was asked for
};

template <class Visitor>
void visit_results(ShortConvResult& result, const Visitor& visitor) {
  visitor("out", result.o);
  visitor("final_state", result.final_state);
}

struct ShortConvArgs {
  using Result = ShortConvResult;
  FLA_ARGUMENT_MEMBERS(FLA_SHORT_CONV_ARGUMENTS)
  Stream stream{};        ///< for CUDA tensors; CPU kernels run on the calling thread and return when done
  Workspace workspace{};  ///< for CUDA tensors, of workspace_size() bytes; without it the call may allocate

  FLA_API static ArgumentTable arguments();
};

FLA_API ShortConvResult short_conv(const ShortConvArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API ShortConvResult short_conv(const ShortConvArgs& args);
}  // namespace original

/// Throws InvalidArgument unless short_conv could run this call.
FLA_API void validate_arguments(const ShortConvArgs& args);

/// Bytes of workspace with which no kernel that could take this call, under any settings, allocates. 0 on the
/// CPU, and where no indices lie on the host. Reads metadata only. Throws as short_conv does.
FLA_API std::size_t workspace_size(const ShortConvArgs& args);

// ---- for authors of backends

/// Where results go: the caller's memory where it was given, new memory otherwise; no state unless it was
/// asked for. A state that is made here has initial_state's dtype, or f32.
FLA_API ShortConvResult make_result(const ShortConvArgs& args);

/// Subclass this to serve short_conv.
class FLA_API ShortConvBackend : public BaseBackend {
 public:
  virtual ShortConvResult short_conv(const ShortConvArgs& args);
  virtual Verdict short_conv_verifier(const ShortConvArgs& args) const;

  /// Bytes of workspace that a call it takes needs; asked for validated arguments that the verifier accepts.
  virtual std::size_t workspace_size(const ShortConvArgs& args) const;

  template <class Type>
  static std::vector<dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(ShortConvBackend, Type, short_conv)};
  }
};

}  // namespace fla
