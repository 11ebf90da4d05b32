#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fla/dispatch/backend/backend.h"
#include "fla/ops/recurrence/recurrence.h"
#include "tools/cases/case.h"
#include "tools/cases/reference_of.h"
#include "tools/conformance/conformance.h"

/// The one comparison that tests of the family's ops make.
namespace fla::conformance {

/// The golden files of an op, sorted; none where no folder was given.
std::vector<std::string> golden_files(const Options& options, std::string_view op);

/// Says how far a result is off, if that is more than the limit, or not a number; otherwise empty.
std::string too_far(std::string_view name, double error, double limit);

/// What a golden file says the results are.
cases::Reference expected_of(const cases::Case& golden);

/// Says where a result is further from the reference than the dtypes of the call allow, or not finite, or
/// that a state that was asked for is not there; empty when it agrees. 2e-5 for f32, 8e-3 for bf16, 2e-3 for
/// f16; the coarsest of q, k, v and of the backend's precision counts, and of states for states. The
/// reference of a call that updates its state in place must be made before the call.
std::string disagreement(const RecurrenceResult& result, const cases::Reference& reference,
                         const recurrence::Arguments& args, DType precision = DType::f32);
template <RecurrenceArgs Args>
std::string disagreement(const RecurrenceResult& result, const cases::Reference& reference, const Args& args,
                         DType precision = DType::f32) {
  return disagreement(result, reference, recurrence::arguments_of(args), precision);
}

/// Of a backend of an op, "original" among them.
BackendInfo info_of(std::string_view op, std::string_view backend);
inline DType precision_of(std::string_view op, std::string_view backend) {
  return info_of(op, backend).precision;
}

/// The same between two results, each of which may be that far off; `exact` is the better one, with its
/// checkpoints where the calls have those.
std::string disagreement(const RecurrenceResult& result, const RecurrenceResult& exact,
                         const recurrence::Arguments& args, const TensorView& exact_checkpoints);
template <RecurrenceArgs Args>
std::string disagreement(const RecurrenceResult& result, const RecurrenceResult& exact, const Args& args,
                         const TensorView& exact_checkpoints = {}) {
  return disagreement(result, exact, recurrence::arguments_of(args), exact_checkpoints);
}

/// Whether two results have the same bits; strides may differ.
bool same_bits(const RecurrenceResult& a, const RecurrenceResult& b);

/// The tensors and options of a call in one line, for messages.
std::string describe(ArgumentTable table, const void* args);
template <class Args>
std::string describe(const Args& args) {
  return describe(Args::arguments(), &args);
}

}  // namespace fla::conformance
