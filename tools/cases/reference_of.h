#pragma once

#include <cstdint>

#include "fla/ops/recurrence/call_of.h"
#include "fla/ops/recurrence/recurrence.h"
#include "tools/cases/recurrence_reference.h"

/// The float64 reference of a call of any op of the family. The arguments must be valid and lie on the CPU.
namespace fla::cases {

template <RecurrenceArgs Args>
Reference reference_of(const Args& args) {
  return recurrence_reference(call_of(args, {}), recurrence::extras_of(recurrence::arguments_of(args)));
}

template <RecurrenceArgs Args>
ReferenceHead reference_head_of(const Args& args, std::int64_t sequence, std::int64_t head) {
  return recurrence_reference_head(call_of(args, {}), recurrence::extras_of(recurrence::arguments_of(args)),
                                   sequence, head);
}

template <BackwardArgs Args>
GradientReference gradient_reference_of(const Args& args) {
  return gradient_reference(call_of(args, RecurrenceGradients{}));
}

inline Errors errors_of(const RecurrenceResult& result, const Reference& reference) {
  return errors_of(result.o, result.final_state, reference);
}

}  // namespace fla::cases
