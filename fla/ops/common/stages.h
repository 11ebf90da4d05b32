#pragma once

#include <optional>
#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/dispatch/backend/backend.h"

/// The parts of original kernels that a backend may want to replace alone: op `common`. Each is a dispatched
/// function like any other; an original kernel calls it for a block of tokens of one head at a time, from
/// whichever thread works on that head. What stands in this file is what runs when no backend takes the call.
///
/// Sizes: B batches of T tokens, H or HV heads, K channels, chunks of C tokens. Strides are honoured on every
/// axis. All arithmetic is in f32, and so is every result: `out` when it was given (it may be the input
/// itself where that is f32), new memory otherwise. The same row has the same bits in whatever call it
/// stands. Throws InvalidArgument before anything runs, BackendError when a backend failed or the required
/// one refused.
namespace fla {

struct StageResult {
  Tensor out;
};

template <class Visitor>
void visit_results(StageResult& result, const Visitor& visitor) {
  visitor("out", result.out);
}

inline constexpr DTypeSet kStageTypes{DType::f32};

// One line an argument, as in fla/ops/recurrence/parts.h.
#define FLA_L2_NORM_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG) \
  TENSOR(x, required, kFloatTypes, "B T H K", "rows of K to be normalised") \
  OUTPUT(out, kStageTypes, "B T H K", "x", "memory for the result; may be x itself")

#define FLA_GATE_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG)               \
  TENSOR(g, required, kFloatTypes, "B T HV K", "raw gates")                            \
  NUMBER(lower_bound, "the gate is lower_bound * sigmoid(exp(A_log) * (g + dt_bias))") \
  TENSOR(A_log, optional, kFloatTypes, "HV",                                           \
         "logarithm of the gate's rate; with lower_bound it may be left out")          \
  TENSOR(dt_bias, optional, kFloatTypes, "HV*K | HV K", "added to g before the gate")  \
  OUTPUT(out, kStageTypes, "B T HV K", "g", "memory for the log-decays; may be g itself")

#define FLA_SOLVE_TRIL_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG)               \
  TENSOR(A, required, kFloatTypes, "B T HV C", "rows of strictly lower triangular matrices") \
  OUTPUT(out, kStageTypes, "B T HV C", "A", "memory for the inverses' rows; may be A itself")

/// The arguments of common.l2_norm.
struct L2NormArgs {
  using Result = StageResult;
  FLA_ARGUMENT_MEMBERS(FLA_L2_NORM_ARGUMENTS)
  Stream stream{};  ///< for CUDA tensors

  FLA_API static ArgumentTable arguments();
};

/// The arguments of common.gate.
struct GateArgs {
  using Result = StageResult;
  FLA_ARGUMENT_MEMBERS(FLA_GATE_ARGUMENTS)
  Stream stream{};  ///< for CUDA tensors

  FLA_API static ArgumentTable arguments();
};

/// The arguments of common.solve_tril.
struct SolveTrilArgs {
  using Result = StageResult;
  FLA_ARGUMENT_MEMBERS(FLA_SOLVE_TRIL_ARGUMENTS)
  Stream stream{};  ///< for CUDA tensors

  FLA_API static ArgumentTable arguments();
};

/// Throw InvalidArgument unless the stage could run this call.
FLA_API void validate_arguments(const L2NormArgs& args);
FLA_API void validate_arguments(const GateArgs& args);
FLA_API void validate_arguments(const SolveTrilArgs& args);

namespace common {

/// out = x * rsqrt(sum(x^2) + 1e-6), the sum over the K channels of a row.
FLA_API StageResult l2_norm(const L2NormArgs& args);

/// out = -exp(A_log) * softplus(g + dt_bias), which has no lower bound; with lower_bound, which must be
/// negative, lower_bound * sigmoid(exp(A_log) * (g + dt_bias)), without the factor where A_log is left out.
FLA_API StageResult gate(const GateArgs& args);

/// The tokens of each batch and head are cut into chunks of C, the last of which may be shorter. Row i of a
/// chunk holds A[i][0 .. C) of its matrix: only A[i][j] with j < i is read, whatever stands in the rest. Row
/// i of the result is row i of (I + A)^-1: 1 on the diagonal, 0 behind it. C is from 1 to 64.
FLA_API StageResult solve_tril(const SolveTrilArgs& args);

/// The stages by themselves, whatever the settings are.
namespace original {
FLA_API StageResult l2_norm(const L2NormArgs& args);
FLA_API StageResult gate(const GateArgs& args);
FLA_API StageResult solve_tril(const SolveTrilArgs& args);
}  // namespace original

}  // namespace common

// ---- for authors of backends

/// `out` as it was given, or new f32 memory of the input's shape.
FLA_API StageResult make_result(const L2NormArgs& args);
FLA_API StageResult make_result(const GateArgs& args);
FLA_API StageResult make_result(const SolveTrilArgs& args);

/// Subclass this to serve stages; override what the backend has. A stage may be called from several threads
/// at once, and from within a parallel region of the library.
class FLA_API CommonBackend : public BaseBackend {
 public:
  virtual StageResult l2_norm(const L2NormArgs& args);
  virtual Verdict l2_norm_verifier(const L2NormArgs& args) const;
  virtual StageResult gate(const GateArgs& args);
  virtual Verdict gate_verifier(const GateArgs& args) const;
  virtual StageResult solve_tril(const SolveTrilArgs& args);
  virtual Verdict solve_tril_verifier(const SolveTrilArgs& args) const;

  template <class Type>
  static std::vector<dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(CommonBackend, Type, l2_norm), FLA_BACKEND_SLOT(CommonBackend, Type, gate),
            FLA_BACKEND_SLOT(CommonBackend, Type, solve_tril)};
  }
};

}  // namespace fla
