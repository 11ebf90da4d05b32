#pragma once

#include <cstdint>
#include <vector>

#include "fla/core/tensor.h"
#include "fla/ops/recurrence/arguments.h"
#include "fla/ops/recurrence/call.h"

/// The recurrence of fla/ops/recurrence/call.h in float64, written for being read and not for speed: what
/// every kernel is held to. It takes every option, dtype, stride and layout, and shares no code with the
/// kernels.
namespace fla::cases {

struct Reference {
  std::vector<double> o;  ///< [B, T, HV, V]
  /// [N, HV, K, V], or [N, HV, V, K] with state_v_first; behind them, where checkpoints go into the pool,
  /// those: [N, C, HV, K, V].
  std::vector<double> final_state;
  /// The slot of a result's final_state that holds each of those states, negative: none does. Empty: slot n
  /// has sequence n's.
  std::vector<std::int64_t> slots{};
  std::vector<double> checkpoints{};  ///< [N, C, HV, K, V], or as state_v_first says; 0 where none is kept
  std::vector<std::int64_t> kept{};   ///< how many of sequence n's C are; empty: the call has none
};

/// The call must be valid and lie on the CPU. Of a sequence that is skipped, o and final_state are zeros.
Reference recurrence_reference(const RecurrenceCall& call, const CallExtras& extras = {});

/// One value head of one sequence alone.
struct ReferenceHead {
  std::vector<double> o;                           ///< [tokens of the sequence, V]
  std::vector<double> state;                       ///< [K, V], always
  std::vector<std::vector<double>> checkpoints{};  ///< those that are kept, each like the state
};
ReferenceHead recurrence_reference_head(const RecurrenceCall& call, const CallExtras& extras,
                                        std::int64_t sequence, std::int64_t head);

/// The gradients of such a call, in float64: those of every input that it has, row-major in the input's
/// shape, whether they are asked for or not. Empty where there is no input.
struct GradientReference {
#define FLA_INPUT(name) std::vector<double> d##name{};
  FLA_RECURRENCE_INPUTS(FLA_INPUT)
#undef FLA_INPUT
};
GradientReference gradient_reference(const BackwardCall& call);

/// The errors of o and, where it is there, of the slots of final_state that were written.
struct Errors {
  double o = 0, final_state = 0;
  double worst() const { return o > final_state ? o : final_state; }
};
Errors errors_of(const TensorView& o, const TensorView& final_state, const Reference& reference);

/// The error of those checkpoints that are kept; 0 where the call has none.
double checkpoint_error(const TensorView& checkpoints, const Reference& reference);

/// Whether those checkpoints that a call does not keep hold this value still.
bool rest_holds(const TensorView& checkpoints, const Reference& reference, double value);

}  // namespace fla::cases
