#pragma once

#include <vector>

#include "fla/core/arguments.h"
#include "fla/core/export.h"
#include "fla/core/tensor.h"
#include "fla/dispatch/backend/backend.h"

/// The norm and the output gate that a recurrence's outputs go through, a row of V channels at a time:
///
///     o = x * rsqrt(mean(x^2) + eps) * weight * g * sigmoid(g)
///
/// without the factor g, o = … * sigmoid(g), with use_sigmoid. It is flash-linear-attention's
/// FusedRMSNormGated.
///
/// Sizes: B batches of T tokens, HV heads, V channels, at least one. Strides are honoured on every axis. All
/// arithmetic is in f32; the same row has the same bits in whatever call it stands. Threads, streams, graphs,
/// lifetimes and errors are as fla/ops/recurrence/recurrence.h says; with `out` given a call allocates
/// nothing, on the CPU after the first of its size on a thread.
namespace fla {

// One line an argument, as in fla/ops/recurrence/parts.h.
#define FLA_GATED_RMS_NORM_ARGUMENTS(TENSOR, INDEX, OUTPUT, NUMBER, INTEGER, FLAG)  \
  TENSOR(x, required, kFloatTypes, "B T HV V", "rows of V to be normalised")        \
  TENSOR(g, required, kFloatTypes, "B T HV V", "raw gates")                         \
  TENSOR(weight, optional, kFloatTypes, "V", "a channel's factor; 1 when left out") \
  NUMBER(eps, "added to the mean of squares; 1e-6 when left out")                   \
  FLAG(use_sigmoid, "the gate is sigmoid(g) instead of g * sigmoid(g)")             \
  OUTPUT(out, kFloatTypes, "B T HV V", "x", "memory for the result, dtype of x; may be x itself")

struct GatedRmsNormResult {
  Tensor o;  ///< [B, T, HV, V], dtype of x
};

template <class Visitor>
void visit_results(GatedRmsNormResult& result, const Visitor& visitor) {
  visitor("out", result.o);
}

struct GatedRmsNormArgs {
  using Result = GatedRmsNormResult;
  FLA_ARGUMENT_MEMBERS(FLA_GATED_RMS_NORM_ARGUMENTS)
  Stream stream{};  ///< for CUDA tensors; CPU kernels run on the calling thread and return when done

  FLA_API static ArgumentTable arguments();
};

FLA_API GatedRmsNormResult gated_rms_norm(const GatedRmsNormArgs& args);

/// The original kernels by themselves, whatever the settings are.
namespace original {
FLA_API GatedRmsNormResult gated_rms_norm(const GatedRmsNormArgs& args);
}  // namespace original

/// Throws InvalidArgument unless gated_rms_norm could run this call.
FLA_API void validate_arguments(const GatedRmsNormArgs& args);

// ---- for authors of backends

/// `out` as it was given, or new memory.
FLA_API GatedRmsNormResult make_result(const GatedRmsNormArgs& args);

/// eps as given, or 1e-6.
inline float eps_of(const GatedRmsNormArgs& args) { return args.eps.value_or(1e-6f); }

/// Subclass this to serve gated_rms_norm.
class FLA_API GatedRmsNormBackend : public BaseBackend {
 public:
  virtual GatedRmsNormResult gated_rms_norm(const GatedRmsNormArgs& args);
  virtual Verdict gated_rms_norm_verifier(const GatedRmsNormArgs& args) const;

  template <class Type>
  static std::vector<dispatch::Slot> slots() {
    return {FLA_BACKEND_SLOT(GatedRmsNormBackend, Type, gated_rms_norm)};
  }
};

}  // namespace fla
