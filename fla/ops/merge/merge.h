#pragma once

#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/dispatch/backend/backend.h"
#include "fla/ops/recurrence/parts.h"

/// The state behind C runs of tokens of which only summaries are known (<op>_summary, of any op of the
/// family). Per sequence and value head, with a state S of shape [K, V] that starts as initial_state, or as
/// zeros, and for c from 0 to C - 1
///
///     S <- P_c S + R_c
///
/// Summaries of gradients (those with `do`) are given from the last run of tokens to the first.
///
/// Sizes: C summaries, 0 among them, N sequences, HV value heads, K and V channels from 1 to 256. Strides are
/// honoured on every axis, so that R and P may be slices of one buffer that was gathered. All arithmetic is
/// in f32. A state has the same bits in one call with all summaries and in several that hand it on. Threads,
/// streams, graphs, lifetimes and errors are as fla/ops/recurrence/recurrence.h says; with final_state given
/// a call allocates nothing, on the CPU after the first of its size on a thread.
namespace fla {

// One line an argument, as in fla/ops/recurrence/parts.h.
#define FLA_MERGE_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG)                          \
  TENSOR(R, required, kSummaryTypes, "C N HV K V; state_v_first: C N HV V K", "what the runs add") \
  TENSOR(P, required, kSummaryTypes, "C N HV K K | C N HV K",                                      \
         "what the runs make of a state; the diagonal alone for additive ops")                     \
  TENSOR(initial_state, optional, kSummaryTypes, "N HV K V; state_v_first: N HV V K",              \
         "the state before the first run")                                                         \
  FLAG(state_v_first, "states and R are [V, K] instead of [K, V]")                                 \
  OUTPUT(final_state, kSummaryTypes, "N HV K V; state_v_first: N HV V K", "initial_state",         \
         "memory for the state behind the last run; may be initial_state itself")

struct MergeResult {
  Tensor final_state;  ///< [N, HV, K, V], f32
};

template <class Visitor>
void visit_results(MergeResult& result, const Visitor& visitor) {
  visitor("final_state", result.final_state);
}

struct MergeArgs {
  using Result = MergeResult;
  FLA_ARGUMENT_MEMBERS(FLA_MERGE_ARGUMENTS)
  Stream stream{};  ///< for CUDA tensors; CPU kernels run on the calling thread and return when done

  FLA_API static ArgumentTable arguments();
};

FLA_API MergeResult merge(const MergeArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API MergeResult merge(const MergeArgs& args);
}  // namespace original

/// Throws InvalidArgument unless merge could run this call.
FLA_API void validate_arguments(const MergeArgs& args);

// ---- for authors of backends

/// `final_state` as it was given, or new memory.
FLA_API MergeResult make_result(const MergeArgs& args);

/// Subclass this to serve merge.
class FLA_API MergeBackend : public BaseBackend {
 public:
  virtual MergeResult merge(const MergeArgs& args);
  virtual Verdict merge_verifier(const MergeArgs& args) const;

  template <class Type>
  static std::vector<dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(MergeBackend, Type, merge)};
  }
};

}  // namespace fla
