#pragma once

#include <string>
#include <string_view>

#include "fla/ops/kda/kda.h"
#include "tools/cases/case.h"
#include "tools/cases/reference_of.h"

/// The one comparison that tests of kda make.
namespace fla::conformance {

/// What a golden file says the results are.
cases::Reference expected_of(const cases::Case& golden);

/// Says where a result is further from the reference than the dtypes of the call allow, or not finite, or
/// that a state that was asked for is not there; empty when it agrees. 2e-5 for f32, 8e-3 for bf16, 2e-3 for
/// f16; the coarsest of q, k, v and of the backend's precision counts, and of the state for the state. The
/// reference of a call that updates its state in place must be made before the call.
std::string disagreement(const KdaResult& result, const cases::Reference& reference, const KdaArgs& args,
                         DType precision = DType::f32);

/// Of a backend of kda, by its BackendInfo; f32 for "original".
DType precision_of(std::string_view backend);

/// The same between two results, each of which may be that far off; `exact` is the better one.
std::string disagreement(const KdaResult& result, const KdaResult& exact, const KdaArgs& args);

/// Whether two results have the same bits; strides may differ.
bool same_bits(const KdaResult& a, const KdaResult& b);

/// The tensors and options of a call in one line, for messages.
std::string describe(const KdaArgs& args);

}  // namespace fla::conformance
