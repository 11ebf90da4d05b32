#pragma once

#include <cstdint>

#include "fla/ops/kda/kda.h"
#include "fla/ops/recurrence/call_of.h"
#include "tools/cases/recurrence_reference.h"

/// The float64 reference of a call of kda. The arguments must be valid and lie on the CPU.
namespace fla::cases {

using KdaReference = Reference;
using KdaErrors = Errors;

inline Reference kda_reference(const KdaArgs& args) { return recurrence_reference(call_of(args, {})); }
inline ReferenceHead kda_reference_head(const KdaArgs& args, std::int64_t sequence, std::int64_t head) {
  return recurrence_reference_head(call_of(args, {}), {}, sequence, head);
}
inline Errors kda_errors(const KdaResult& result, const Reference& reference) {
  return errors_of(result.o, result.final_state, reference);
}

}  // namespace fla::cases
