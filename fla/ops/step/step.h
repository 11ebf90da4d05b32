#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fla/core/export.h"
#include "fla/dispatch/backend/backend.h"
#include "fla/dispatch/choice/accepting_backends.h"
#include "fla/ops/step/arguments.h"
#include "fla/ops/step/parts.h"

/// A layer's decoding step between its projections, one token of every sequence: the convolution of q, k and
/// v with SiLU (fla/ops/short_conv/short_conv.h), the recurrence (its op's header), and the norm with the
/// output gate (fla/ops/gated_rms_norm/gated_rms_norm.h), as these three one after another. Both pools, of
/// last inputs and of states, are updated in place.
///
/// Sizes: B sequences of one token (T = 1), H key heads, HV value heads (a multiple of H), K and V channels
/// from 1 to 256, W from 2 to 4. A token of x holds q of all heads, then k, then v: D = 2 H K + HV V. Strides
/// are honoured on every axis. All arithmetic is in f32; the original kernels round q, k, v and the
/// recurrence's outputs to x's dtype on the way, backends need not.
///
/// Without state_indices sequence n has slot n of both pools. No slot is named twice. A sequence whose
/// state_indices[n] is negative is skipped: its outputs are zeros, whatever its inputs are, and neither pool
/// is written for it. Indices on the host are checked before anything runs; on the device they are not read
/// before the kernels run, where a slot outside of the pools counts as negative, and FLA_CHECK_INDICES=1
/// reads and checks them first.
///
/// A call that is refused, or that finds no memory for itself, leaves both pools as they were. Views,
/// threads, streams, graphs and errors are as fla/ops/recurrence/recurrence.h says. With `out` and
/// `workspace` given a call on CUDA allocates nothing; one on the CPU takes memory for a token's vectors.
namespace fla {

/// Throws InvalidArgument unless the op could run this call.
template <StepArgs Args>
void validate_arguments(const Args& args) {
  step::validate(step::arguments_of(args));
}

// ---- for authors of backends

/// `out` as it was given, or new memory.
template <StepArgs Args>
StepResult make_result(const Args& args) {
  return step::make_result(step::arguments_of(args));
}

/// What the backends of every step have; an op's own class adds its function.
template <StepArgs OpArgs>
class FLA_API StepBackend : public BaseBackend {
 public:
  using Args = OpArgs;

  /// Bytes of workspace that a call it takes needs; asked for validated arguments that the verifier accepts.
  virtual std::size_t workspace_size(const Args&) const { return 0; }
};

/// The class to subclass to serve a step.
#define FLA_STEP_BACKEND(NAME, ARGS, FUNCTION)                                                \
  class FLA_API NAME : public ::fla::StepBackend<ARGS> {                                      \
   public:                                                                                    \
    virtual ::fla::StepResult FUNCTION(const ARGS&) { not_implemented(#FUNCTION); }           \
    virtual ::fla::Verdict FUNCTION##_verifier(const ARGS&) const { return ::fla::accept(); } \
                                                                                              \
    template <class Type>                                                                     \
    static ::std::vector<::fla::dispatch::Slot> slots() {                                     \
      return {FLA_BACKEND_SLOT(NAME, Type, FUNCTION)};                                        \
    }                                                                                         \
  }

/// Bytes of workspace with which no kernel that could take this call, under any settings, allocates. 0 on the
/// CPU. Reads metadata only. Throws as the op does.
template <StepArgs Args>
std::size_t workspace_size(const Args& args) {
  validate_arguments(args);
  if (args.x.device().is_cpu()) return 0;
  std::size_t bytes = step::original_workspace(step::arguments_of(args));
  Args without = args;  // a verifier may refuse a workspace that is too small for it
  without.workspace = {};
  for (const auto& accepting : dispatch::accepting_backends(Args::kOp.name, without)) {
    if (const auto* backend = dynamic_cast<const StepBackend<Args>*>(accepting.backend.get()))
      bytes = std::max(bytes, backend->workspace_size(without));
  }
  return bytes;
}

}  // namespace fla
